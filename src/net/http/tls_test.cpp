#include "net/http/tls.h"

#include <gmock/gmock.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <atomic>
#include <fstream>
#include <functional>

#include "net/http/http_test_support.h"
#include "net/http/test_certificates.h"

namespace cairn::net {
namespace {

using testing::HasSubstr;

/// A blocking client that trusts everybody.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port) : context_(SSL_CTX_new(TLS_client_method())), session_(SSL_new(context_)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    SSL_set_fd(session_, socket_);
    connected_ = SSL_connect(session_) == 1;
  }
  ~TlsClient() {
    close();
    SSL_free(session_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  void send(std::string_view text) { SSL_write(session_, text.data(), static_cast<int>(text.size())); }
  std::string read_until(std::string_view marker) {
    char bytes[4096];
    while (marker.empty() || got_.find(marker) == std::string::npos) {
      const int count = SSL_read(session_, bytes, sizeof bytes);
      if (count <= 0) break;
      got_.append(bytes, static_cast<size_t>(count));
    }
    return std::exchange(got_, {});
  }
  std::string certificate_name() {
    char name[64] = {};
    X509* certificate = SSL_get1_peer_certificate(session_);
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    X509_free(certificate);
    return name;
  }
  /// Says that it sends no more, and goes on reading.
  void finish() { SSL_shutdown(session_); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  SSL_CTX* context_;
  SSL* session_;
  int socket_ = -1;
  bool connected_ = false;
  std::string got_;
};

class TlsTest : public HttpServerTest {
 protected:
  void start_tls(HttpHandler handler, HttpLimits limits = {}) {
    certificates_.write("first");
    start(limits, std::move(handler));
    server_->set_tls(*certificates_.load("first.pem", "first-key.pem"));
  }
  Certificates certificates_;
};

constexpr std::string_view kAsk = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(TlsContext, ThatCannotBeMadeIsNamedWithTheReason) {
  const Certificates files;
  files.write("a");
  files.write("b");
  files.write("locked", "secret");
  std::ofstream(files.path("empty.pem")).close();
  std::ofstream(files.path("garbage.pem")) << "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n";
  const auto told = [&](const char* certificate, const char* key) {
    const auto made = files.load(certificate, key);
    return made ? std::string("none") : made.error().text();
  };
  EXPECT_EQ(told("a.pem", "a-key.pem"), "none");
  EXPECT_EQ((*files.load("a.pem", "a-key.pem"))->valid_until().size(), 10u);
  EXPECT_THAT(told("missing.pem", "a-key.pem"), HasSubstr("missing.pem is no file: there is nothing"));
  EXPECT_THAT(told("a.pem", "missing.pem"), HasSubstr("the TLS key: " + files.path("missing.pem") + " is no file"));
  EXPECT_THAT(told("empty.pem", "a-key.pem"), HasSubstr("is empty"));
  EXPECT_THAT(told("garbage.pem", "a-key.pem"), HasSubstr("PEM form"));
  EXPECT_THAT(told("a.pem", "garbage.pem"), HasSubstr("cannot use the TLS key"));
  EXPECT_THAT(told("a.pem", "b-key.pem"), HasSubstr("does not belong to the certificate"));
  EXPECT_THAT(told("locked.pem", "locked-key.pem"), HasSubstr("it has a passphrase"));
}

TEST_F(TlsTest, RequestsAreAnsweredOneAfterTheOther) {
  start_tls([](HttpRequest request, std::shared_ptr<HttpResponse> response) {
    response->send(200, "text/plain", request.path + " " + std::string(100'000, 'x') + " end");
  });
  TlsClient client(port());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.read_until(" end"), HasSubstr("\r\n\r\n/one xxx"));
  }
  client.send(std::string(kAsk) + std::string(kAsk));  // pipelined
  const std::string both = client.read_until(" end");
  EXPECT_THAT(both + client.read_until(" end"), HasSubstr("200 OK"));
}

TEST_F(TlsTest, AClientThatReadsSlowlyGetsAllOfALargeAnswer) {
  const std::string body = std::string(3'000'000, 'y') + "end";
  start_tls([&](HttpRequest, std::shared_ptr<HttpResponse> response) { response->send(200, "text/plain", body); });
  TlsClient client(port());
  client.send(kAsk);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const std::string got = client.read_until("yend");
  EXPECT_EQ(got.substr(got.size() - body.size()), body);
}

TEST_F(TlsTest, AClientThatGoesAwayEndsItsRequestAndOneThatStopsSendingDoesNot) {
  std::atomic<int> closed = 0;
  std::shared_ptr<HttpResponse> kept;
  std::atomic<bool> asked = false;
  start_tls(
      [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
        response->on_close([&] { ++closed; });
        response->begin_events();
        kept = std::move(response);
        asked = true;
      },
      {.comment_interval = std::chrono::milliseconds(20)});
  const auto wait_for = [](const std::function<bool()>& done) {
    for (int i = 0; i < 500 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  };
  TlsClient patient(port());
  patient.send(kAsk);
  ASSERT_TRUE(wait_for([&] { return asked.load(); }));
  patient.finish();
  EXPECT_THAT(patient.read_until(": keep-alive"), HasSubstr("200 OK"));
  kept->write("data: last\n\n");
  kept->end();
  EXPECT_THAT(patient.read_until("last"), HasSubstr("data: last"));
  ASSERT_TRUE(wait_for([&] { return closed == 1; }));
  kept.reset();
  asked = false;
  TlsClient gone(port());
  gone.send(kAsk);
  ASSERT_TRUE(wait_for([&] { return asked.load(); }));
  gone.close();
  EXPECT_TRUE(wait_for([&] { return closed == 2; }));
  kept.reset();
}

TEST_F(TlsTest, NewConnectionsGetANewCertificateAndOpenOnesGoOn) {
  start_tls([](HttpRequest, std::shared_ptr<HttpResponse> response) { response->send(200, "text/plain", "ok"); });
  TlsClient open(port());
  EXPECT_EQ(open.certificate_name(), "first");
  certificates_.write("second");
  server_->set_tls(*certificates_.load("second.pem", "second-key.pem"));
  open.send(kAsk);
  EXPECT_THAT(open.read_until("ok"), HasSubstr("200 OK"));
  EXPECT_EQ(TlsClient(port()).certificate_name(), "second");
}

TEST_F(TlsTest, WhatIsNoTlsIsRefusedAndHarmsNobody) {
  start_tls([](HttpRequest, std::shared_ptr<HttpResponse> response) { response->send(200, "text/plain", "ok"); });
  RawClient plain(port());
  plain.send(kAsk);
  EXPECT_THAT(plain.read_until(""), testing::AllOf(HasSubstr("400 Bad Request"), HasSubstr("https://")));
  RawClient garbage(port());
  garbage.send(std::string(1'000, '\x16'));
  EXPECT_THAT(garbage.read_until(""), testing::Not(HasSubstr("HTTP")));
  TlsClient good(port());
  good.send(kAsk);
  EXPECT_THAT(good.read_until("ok"), HasSubstr("200 OK"));
}

}  // namespace
}  // namespace cairn::net
