#include "net/http/http_client.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "net/http/http_test_support.h"
#include "net/http/test_certificates.h"

namespace cairn::net {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(HttpUrl, IsCheckedAndLosesTheSlashesAtItsEnd) {
  EXPECT_EQ(*check_http_url("http://localhost"), "http://localhost");
  EXPECT_EQ(*check_http_url("http://h:8080/v1//"), "http://h:8080/v1");
  EXPECT_EQ(*check_http_url("https://[::1]:99/"), "https://[::1]:99");
  EXPECT_EQ(*check_http_url("http://[fe80::1%25eth0]:99"), "http://[fe80::1%25eth0]:99");
  EXPECT_EQ(*check_http_url("https://user:word@h"), "https://user:word@h");
  for (const auto* bad :
       {"h:80", "http://", "http:///", "https://:1", "http://h:99999", "http://h:0", "http://h:x", "ftp://h",
        "http://[::1", "http://[fe80::1%]", "http://[x]", "http://h/?x", "http://h h", "http://h\n"})
    EXPECT_FALSE(check_http_url(bad).has_value()) << bad;
  EXPECT_THAT(check_http_url("http://h:99999").error().message, HasSubstr("\"99999\" is not a port"));
}

TEST(HttpUrl, IsShownWithoutItsSecrets) {
  EXPECT_EQ(shown_url("https://user:word@h:1/p?signature=1"), "https://h:1/p");
  EXPECT_EQ(shown_url("http://h/p@x"), "http://h/p@x");
  EXPECT_EQ(shown_url("http://h?a=b@c"), "http://h");
}

/// A server that notes what comes, and answers as its path says.
class HttpClientTest : public HttpServerTest {
 protected:
  void SetUp() override {
    start({.traffic = traffic_}, [this](HttpRequest request, std::shared_ptr<HttpResponse> response) {
      answer(std::move(request), std::move(response));
    });
  }
  void TearDown() override {
    {
      const std::lock_guard lock(mutex_);
      held_.clear();
    }
    HttpServerTest::TearDown();
  }
  void start_tls(const std::string& name = "good", const char* hosts = "DNS:localhost,IP:127.0.0.1") {
    certificates_.write(name, nullptr, hosts);
    server_->set_tls(*certificates_.load(name + ".pem", name + "-key.pem"));
  }
  void answer(HttpRequest request, std::shared_ptr<HttpResponse> response) {
    const std::lock_guard lock(mutex_);
    const std::string path = request.path;
    const std::string query = request.query;
    requests_.push_back(std::move(request));
    if (path == "/silent" || path == "/stream") {
      if (path == "/stream") {
        response->begin_events();
        response->write("data: one\n\n");
      }
      held_.push_back(std::move(response));
    } else if (path == "/moved") {
      response->send(307, "text/plain", "elsewhere", {{"Location", query}});
    } else if (path == "/error") {
      response->send(503, "text/plain", std::string(2 * kErrorBodyBytesMax, 'x'));
    } else {
      response->send(200, "text/plain", "answer");
    }
  }
  std::vector<HttpRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  HttpRequest last() { return requests().back(); }
  std::string https(std::string_view path = "/") const { return fmt::format("https://127.0.0.1:{}{}", port(), path); }
  static std::string told(HttpCall call) {
    const auto reply = HttpClient().request(std::move(call));
    return reply ? reply->body : reply.error().message;
  }

  std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
  Certificates certificates_;
  std::vector<std::shared_ptr<HttpResponse>> held_;
  std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  // What the machine has must not matter.
  ScopedVariable bundle_{"CURL_CA_BUNDLE", nullptr}, file_{"SSL_CERT_FILE", nullptr},
      proxy_{"http_proxy", "http://127.0.0.1:1"}, all_{"ALL_PROXY", "http://127.0.0.1:1"}, none_{"NO_PROXY", nullptr},
      none_too_{"no_proxy", nullptr};
};

TEST_F(HttpClientTest, ACallIsSentAsItIsAndOneConnectionServesThemAll) {
  HttpClient client;
  for (int i = 0; i < 3; ++i) {
    const auto reply = client.request(
        {.url = url("/v1/x?y=1"), .body = "{}", .headers = {{"Content-Type", "application/json"}}, .token = "sk-key"});
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "answer");
    EXPECT_EQ(reply->header("content-type"), "text/plain");
  }
  const HttpRequest request = last();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.query, "y=1");
  EXPECT_EQ(request.body, "{}");
  EXPECT_EQ(request.header("content-type"), "application/json");
  EXPECT_EQ(request.header("authorization"), "Bearer sk-key");
  EXPECT_EQ(request.header("expect"), "");
  EXPECT_EQ(traffic_->accepted, 1);
  ASSERT_TRUE(client.request({.url = url("/")}));
  EXPECT_EQ(last().method, "GET");
  EXPECT_EQ(last().header("authorization"), "");
}

TEST_F(HttpClientTest, AnErrorIsAnAnswerWhoseBodyIsBounded) {
  std::string streamed;
  const auto reply =
      HttpClient().request({.url = url("/error"), .body = "{}"}, [&](std::string_view bytes) { streamed += bytes; });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->body.size(), kErrorBodyBytesMax);
  EXPECT_EQ(streamed, "");
}

TEST_F(HttpClientTest, WhatCannotBeReachedIsNamed) {
  EXPECT_THAT(told({.url = "http://127.0.0.1:1/v1"}),
              AllOf(HasSubstr("cannot connect to http://127.0.0.1:1: Connection refused"), Not(HasSubstr("/v1"))));
  const std::string there = url();
  stop();
  EXPECT_EQ(HttpClient().request({.url = there}).error().code, Code::kUnavailable);
}

TEST_F(HttpClientTest, ACallThatIsCancelledEndsAtOnceInEveryPhase) {
  for (const auto* path : {"/silent", "/stream"}) {
    std::atomic<bool> cancelled = false;
    std::thread other([&] {
      std::this_thread::sleep_for(100ms);
      cancelled = true;
    });
    std::string streamed;
    const auto begin = std::chrono::steady_clock::now();
    const auto reply = HttpClient().request({.url = url(path), .cancelled = &cancelled},
                                            [&](std::string_view bytes) { streamed += bytes; });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    other.join();
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Code::kCancelled);
    EXPECT_EQ(streamed, path == std::string("/stream") ? "data: one\n\n" : "");
  }
}

TEST_F(HttpClientTest, AServerThatStaysSilentIsGivenUp) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(told({.url = url("/silent"), .stall = 1s}), HasSubstr("the last 1 seconds"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
}

TEST_F(HttpClientTest, ARedirectTakesNeitherTheKeyToAnotherHostNorABodyAnywhere) {
  const std::string elsewhere = fmt::format("http://localhost:{}/there", port());
  EXPECT_EQ(told({.url = url("/moved?") + elsewhere, .token = "sk-key"}), "answer");
  const auto both = requests();
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].header("authorization"), "Bearer sk-key");
  EXPECT_EQ(both[1].path, "/there");
  EXPECT_EQ(both[1].header("authorization"), "");
  EXPECT_THAT(told({.url = url("/moved?") + elsewhere + "?secret=1", .body = "{}"}),
              AllOf(HasSubstr("has moved to " + elsewhere), Not(HasSubstr("secret"))));
  EXPECT_EQ(requests().size(), 3u);
}

TEST_F(HttpClientTest, EncryptionIsNotLeftByARedirect) {
  start_tls();
  const ScopedVariable trusted("SSL_CERT_FILE", certificates_.path("good.pem").c_str());
  EXPECT_THAT(told({.url = https("/moved?") + url("/plain"), .token = "sk-key"}), HasSubstr("rotocol \"http\""));
  EXPECT_EQ(last().path, "/moved");
}

TEST_F(HttpClientTest, CertificatesAreCheckedAgainstThoseThatTheEnvironmentNames) {
  start_tls();
  const std::string refused = fmt::format("the certificate of https://127.0.0.1:{} is not accepted: ", port());
  EXPECT_THAT(told({.url = https()}), AllOf(HasSubstr(refused), HasSubstr("SSL_CERT_FILE")));
  certificates_.write("other");
  for (const auto* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
    const ScopedVariable right(name, certificates_.path("good.pem").c_str());
    EXPECT_EQ(told({.url = https(), .body = "{}", .token = "sk-key"}), "answer");
    EXPECT_EQ(last().header("authorization"), "Bearer sk-key");
    const ScopedVariable wrong(name, certificates_.path("other.pem").c_str());
    EXPECT_THAT(told({.url = https()}), HasSubstr(refused));
    const ScopedVariable missing(name, certificates_.path("missing.pem").c_str());
    EXPECT_THAT(told({.url = https()}), HasSubstr("missing.pem"));
  }
}

TEST_F(HttpClientTest, ACertificateForAnotherNameIsRefused) {
  start_tls("elsewhere", "DNS:elsewhere.example,IP:192.0.2.1");
  const ScopedVariable trusted("SSL_CERT_FILE", certificates_.path("elsewhere.pem").c_str());
  EXPECT_THAT(told({.url = https()}), AllOf(HasSubstr("is not accepted"), HasSubstr("for this very name or address")));
}

TEST_F(HttpClientTest, TheWrongSchemeIsNamed) {
  EXPECT_THAT(told({.url = https()}), HasSubstr("an address with http://"));
  start_tls();
  EXPECT_THAT(told({.url = url()}), HasSubstr("https://"));
}

TEST_F(HttpClientTest, AProxyOfTheEnvironmentIsAskedForOthersButNotForThisMachine) {
  EXPECT_EQ(told({.url = url()}), "answer");  // the fixture's proxy does not exist
  EXPECT_THAT(told({.url = "http://models.invalid/v1"}),
              AllOf(HasSubstr("cannot connect to http://models.invalid: "), HasSubstr("127.0.0.1 port 1")));
  const ScopedVariable proxy("http_proxy", url("").c_str());
  EXPECT_THAT(told({.url = "http://models.invalid/v1"}), HasSubstr("was asked for under the name \"models.invalid\""));
  const ScopedVariable none("NO_PROXY", "example.invalid,models.invalid");
  EXPECT_THAT(told({.url = "http://models.invalid/v1"}), HasSubstr("resolve host"));
}

TEST(EventSplitter, LinesMayEndWithCarriageReturns) {
  EventSplitter splitter;
  EXPECT_THAT(splitter.push("data: a\r\n\r\ndata: b\r"), testing::ElementsAre("a"));
  EXPECT_THAT(splitter.push("\n\r\n"), testing::ElementsAre("b"));
}

TEST(EventSplitter, AnySplitGivesTheSameEvents) {
  const std::string text = ": comment\n\ndata: a\ndata: b\n\nevent: x\ndata:c\n\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EventSplitter splitter;
    auto events = splitter.push(std::string_view(text).substr(0, cut));
    for (auto& event : splitter.push(std::string_view(text).substr(cut))) events.push_back(event);
    ASSERT_THAT(events, testing::ElementsAre("a\nb", "c")) << cut;
  }
}

}  // namespace
}  // namespace cairn::net
