#include "net/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "net/http/content_coding.h"
#include "net/http/http_test_support.h"

namespace cairn::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

void echo(const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
  response->send(200, "text/plain", request.method + " " + request.path + "?" + request.query + " " + request.body);
}

TEST_F(HttpServerTest, AnswersAndDecodesThePath) {
  start({}, echo);
  const auto reply = HttpClient().request({.url = url("/a%20b?x=1"), .body = "body"});
  ASSERT_TRUE(reply.has_value()) << reply.error().text();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "POST /a b?x=1 body");
}

/// The X-Request-Id of every answer in `text`, which its Request-Id repeats.
std::vector<std::string> request_ids(std::string_view text) {
  std::vector<std::string> ids;
  constexpr std::string_view kName = "\r\nX-Request-Id: ";
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    const size_t begin = at + kName.size();
    ids.emplace_back(text.substr(begin, text.find('\r', begin) - begin));
    EXPECT_THAT(ids.back(), testing::MatchesRegex("req_[0-9a-f]{32}"));
    EXPECT_TRUE(text.substr(begin + ids.back().size()).starts_with("\r\nRequest-Id: " + ids.back() + "\r\n"));
  }
  return ids;
}

TEST_F(HttpServerTest, EveryAnswerHasAUniqueId) {
  std::vector<std::string> handled;
  HttpLimits limits;
  limits.body_bytes_max = 10;
  start(limits, [&](HttpRequest request, std::shared_ptr<HttpResponse> response) {
    handled.push_back(request.id);
    if (request.path == "/stream") {
      response->begin_events();
      response->end();
    } else if (request.path != "/dropped") {
      response->send(200, "text/plain", "whole");
    }
  });
  RawClient client(port());
  const std::string rest = " HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: theirs\r\n";
  client.send("GET /whole" + rest + "\r\nGET /stream" + rest + "\r\nHEAD /head" + rest + "\r\nGET /dropped" + rest +
              "\r\nPOST /large" + rest + "Content-Length: 11\r\n\r\n");
  const std::string got = client.read_until("\"status\":413");
  const auto ids = request_ids(got);
  ASSERT_EQ(ids.size(), 5u) << got;
  stop();  // `handled` belongs to the server's thread
  EXPECT_EQ(std::vector<std::string>(ids.begin(), ids.end() - 1), handled);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 5u);
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrderOnOneConnection) {
  start({}, echo);
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += fmt::format("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
  client.send(all);
  const std::string got = client.read_until("GET /49?");
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = got.find(fmt::format("GET /{}?", i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(HttpServerTest, AnswersMayComeLaterFromAnotherThread) {
  std::vector<std::thread> workers;
  start({}, [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    workers.emplace_back([response = std::move(response)] {
      std::this_thread::sleep_for(20ms);
      response->send(202, "text/plain", "late");
    });
  });
  EXPECT_EQ(fetch()->body, "late");
  for (auto& worker : workers) worker.join();
}

TEST_F(HttpServerTest, StreamsEventsAndKeepsThemAliveWithComments) {
  HttpLimits limits;
  limits.comment_interval = 30ms;
  std::thread worker;
  start(limits, [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    response->begin_events({{"X-Test", "yes"}});
    worker = std::thread([response = std::move(response)] {
      response->write("data: one\n\n");
      std::this_thread::sleep_for(150ms);
      response->write("data: two\n\n");
      response->end();
    });
  });
  std::string all;
  EventSplitter splitter;
  std::vector<std::string> events;
  const auto reply = HttpClient().request({.url = url()}, [&](std::string_view bytes) {
    all += bytes;
    for (auto& event : splitter.push(bytes)) events.push_back(std::move(event));
  });
  worker.join();
  ASSERT_TRUE(reply.has_value()) << reply.error().text();
  EXPECT_THAT(events, testing::ElementsAre("one", "two"));
  EXPECT_THAT(all, HasSubstr(": keep-alive\n\n"));
}

TEST_F(HttpServerTest, AConnectionIsReusedAfterAStream) {
  start({}, [&](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) {
    response->begin_events();
    response->write("data: x\n\n");
    response->end();
  });
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.read_until("\r\n0\r\n\r\n"), HasSubstr("data: x\n\n"));
    client.forget();
  }
  client.send("GET / HTTP/1.0\r\n\r\n");  // HTTP/1.0 has no chunks: the stream ends with the connection
  EXPECT_THAT(client.read_until(""), testing::EndsWith("\r\n\r\ndata: x\n\n"));
}

TEST_F(HttpServerTest, AClientThatGoesAwayIsNoticedInEveryPhase) {
  std::atomic<int> closed = 0;
  std::vector<std::shared_ptr<HttpResponse>> held;
  start({}, [&](const HttpRequest& request, std::shared_ptr<HttpResponse> response) {
    response->on_close([&] { closed.fetch_add(1); });
    if (request.path == "/stream") response->begin_events();
    held.push_back(std::move(response));
  });
  for (const auto* path : {"/wait", "/stream"}) {
    const int before = closed.load();
    RawClient client(port());
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path));
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(closed.load(), before);
    client.close();
    for (int i = 0; i < 200 && closed.load() == before; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(closed.load(), before + 1) << path;
  }
  for (const auto& response : held) EXPECT_TRUE(response->closed());
  held.clear();
}

TEST_F(HttpServerTest, LimitsAndMalformedRequestsAreAnswered) {
  HttpLimits limits;
  limits.header_bytes_max = 2'000;
  limits.body_bytes_max = 1'000;
  limits.read_timeout = 1s;
  start(limits, echo);
  const auto answer = [&](std::string_view request) {
    RawClient client(port());
    client.send(request);
    return client.read_until("");
  };
  EXPECT_THAT(answer("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + std::string(1001, 'x')),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n500\r\n" +
                     std::string(0x500, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(answer("GET / HTTP/1.1\r\nX: " + std::string(3'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(answer("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer("GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(answer("GET / HTTP/1.1\r\nHos"), StartsWith("HTTP/1.1 408"));
  EXPECT_EQ(fetch("/fine")->status, 200);
}

TEST_F(HttpServerTest, ExpectContinueIsAnsweredBeforeTheBody) {
  start({}, echo);
  RawClient client(port());
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 Continue"));
  client.send("hi");
  EXPECT_THAT(client.read_until("POST /? hi"), HasSubstr("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, AStreamThatIsNotReadIsDroppedAtItsLimit) {
  HttpLimits limits;
  limits.unsent_bytes_max = 1 << 20;
  std::atomic<bool> closed = false;
  std::thread worker;
  start(limits, [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    response->begin_events();
    response->on_close([&] { closed = true; });
    worker = std::thread([response = std::move(response)] {
      const std::string event = "data: " + std::string(60'000, 'x') + "\n\n";
      for (int i = 0; i < 2'000 && !response->closed(); ++i) {
        response->write(event);
        std::this_thread::sleep_for(1ms);
      }
    });
  });
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_until("data: ");  // the worker has begun
  worker.join();
  EXPECT_TRUE(closed);
}

TEST_F(HttpServerTest, AWriterThatWaitsForTheClientLosesNothing) {
  constexpr size_t kBound = 64 << 10;
  constexpr int kEvents = 2'000;
  const std::string event = "data: " + std::string(2'000, 'x') + "\n\n";
  HttpLimits limits;
  limits.unsent_bytes_max = 2 * kBound;
  std::atomic<size_t> unsent_most = 0, pauses = 0;
  std::function<void(std::shared_ptr<HttpResponse>, int)> write_on;
  write_on = [&](const std::shared_ptr<HttpResponse>& response, int next) {
    for (; next < kEvents && response->unsent_bytes() < kBound; ++next) response->write(event);
    unsent_most = std::max(unsent_most.load(), response->unsent_bytes());
    if (next == kEvents) return response->end();
    pauses.fetch_add(1);
    response->on_drained(kBound / 2, [&, response, next] {
      EXPECT_LE(response->unsent_bytes(), kBound / 2);
      write_on(response, next);
    });
  };
  start(limits, [&](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) {
    response->begin_events();
    write_on(response, 0);
  });
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(100ms);
  const size_t pauses_unread = pauses.load();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(pauses.load(), pauses_unread);  // nothing more is written while the client does not read
  const std::string got = client.read_until("\r\n0\r\n\r\n");
  int events = 0;
  for (size_t at = 0; (at = got.find("data: ", at)) != std::string::npos; ++at) ++events;
  EXPECT_EQ(events, kEvents);
  EXPECT_GT(pauses.load(), 1u);
  EXPECT_LE(unsent_most.load(), kBound + event.size());
}

TEST_F(HttpServerTest, OnDrainedCallsBackIfNothingIsUnsentAndNeverAfterTheEnd) {
  std::atomic<int> told = 0;
  std::shared_ptr<HttpResponse> held;
  start({}, [&](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) {
    EXPECT_EQ(response->unsent_bytes(), 0u);
    held = response;
    response->on_drained(0, [&] {
      told.fetch_add(1);
      held->send(200, "text/plain", "drained");
    });
  });
  EXPECT_EQ(fetch()->body, "drained");
  for (int i = 0; i < 200 && !held->closed(); ++i) std::this_thread::sleep_for(10ms);
  held->on_drained(0, [&] { told.fetch_add(1); });
  held.reset();
  stop();
  EXPECT_EQ(told.load(), 1);
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitAreRefusedWithAnError) {
  HttpLimits limits;
  limits.connections_max = 2;
  start(limits, echo);
  RawClient first(port()), second(port());
  first.send("GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  first.read_until("GET /1?");
  second.send("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  second.read_until("GET /2?");
  RawClient third(port());
  const std::string refused = third.read_until("");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(request_ids(refused).size(), 1u);
}

TEST_F(HttpServerTest, AHandlerThatThrowsOrNeverAnswersGives500) {
  start({}, [](const HttpRequest& request, const std::shared_ptr<HttpResponse>&) {
    if (request.path == "/throw") throw std::runtime_error("boom");
  });
  EXPECT_EQ(fetch("/throw")->status, 500);
  EXPECT_EQ(fetch("/forget")->status, 500);
}

TEST_F(HttpServerTest, StoppingWaitsForAnAnswerInProgress) {
  std::thread worker;
  std::atomic<bool> begun = false;
  start({}, [&](HttpRequest, std::shared_ptr<HttpResponse> response) {
    begun = true;
    worker = std::thread([response = std::move(response)] {
      std::this_thread::sleep_for(200ms);
      response->send(200, "text/plain", "done");
    });
  });
  std::string body;
  std::thread client([&, there = url()] { body = HttpClient().request({.url = there})->body; });
  while (!begun) std::this_thread::sleep_for(1ms);
  server_->stop(5s);
  client.join();
  worker.join();
  EXPECT_EQ(body, "done");
  thread_.join();
  server_.reset();
}

TEST(HttpServer, AFailureToListenNamesItsReason) {
  const auto body = [](int, std::string_view) { return std::string(); };
  auto first = HttpServer::listen("127.0.0.1", 0, {}, echo, body);
  ASSERT_TRUE(first.has_value());
  const auto second = HttpServer::listen("127.0.0.1", (*first)->port(), {}, echo, body);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
  EXPECT_FALSE(HttpServer::listen("no such host", 0, {}, echo, body).has_value());
}

TEST(HttpRequest, FindsValuesInTheQuery) {
  HttpRequest request;
  request.query = "a=1&name=x%2Dy%20z&b&name=second&bad=%zz&empty=";
  EXPECT_EQ(request.query_value("a"), "1");
  EXPECT_EQ(request.query_value("name"), "x-y z");
  EXPECT_EQ(request.query_value("empty"), "");
  for (const auto* none : {"b", "c", "bad", ""}) EXPECT_EQ(request.query_value(none), std::nullopt) << none;
}

TEST_F(HttpServerTest, ABrowserIsToldWhichPagesMayAskAndRead) {
  start({}, echo);
  RawClient client(port());
  client.send(
      "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n"
      "Access-Control-Request-Private-Network: true\r\n\r\n"
      "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nOrigin: app://obsidian.md\r\nContent-Length: 4\r\n\r\nbody");
  const std::string got = client.read_until("POST /v1/x? body");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK\r\n"));
  const size_t second = got.find("HTTP/1.1 200", 1);
  ASSERT_NE(second, std::string::npos) << got;
  const std::string preflight = got.substr(0, second);
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Origin: http://localhost:3000\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Headers: authorization,content-type\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Private-Network: true\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Vary: Origin\r\n"));
  EXPECT_THAT(preflight, HasSubstr("Content-Length: 0\r\n"));
  EXPECT_THAT(got.substr(second), HasSubstr("Access-Control-Allow-Origin: app://obsidian.md\r\n"));
  // Without an Origin, an OPTIONS is a request like any other.
  RawClient plain(port());
  plain.send("OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(plain.read_until("OPTIONS /v1/x"), testing::Not(HasSubstr("Access-Control")));
}

TEST_F(HttpServerTest, PagesOfOtherSitesGetNoPermission) {
  auto listening =
      HttpServer::listen("127.0.0.1", 0, {}, echo, [](int, std::string_view) { return std::string("no"); });
  ASSERT_TRUE(listening.has_value());
  server_ = std::move(*listening);
  server_->set_browser_rules({});
  thread_ = std::thread([this] { server_->run(); });
  RawClient client(port());
  client.send(
      "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
      "\r\n");
  const std::string got = client.read_until("");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(got, testing::Not(HasSubstr("Access-Control")));
}

/// The body of a chunked answer, decompressed.
std::string unzipped(std::string_view answer) {
  std::string_view rest = answer.substr(answer.find("\r\n\r\n") + 4);
  std::string bytes;
  for (;;) {
    const size_t line = rest.find("\r\n");
    const size_t size = std::stoul(std::string(rest.substr(0, line)), nullptr, 16);
    if (size == 0) break;
    bytes += rest.substr(line + 2, size);
    rest.remove_prefix(line + 2 + size + 2);
  }
  return decode_body(ContentCoding::kGzip, bytes, 16 << 20, [](size_t) { return true; }).value();
}

TEST_F(HttpServerTest, ALargeAnswerIsCompressedForWhoTakesIt) {
  std::string large;
  while (large.size() < 1'000'000) large += fmt::format("{},", large.size() * large.size());
  start({}, [&](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
    if (request.path == "/stream") {
      response->begin_events();
      response->write("data: 1\n\n");
      response->end();
    } else {
      response->send(200, "text/plain", request.path == "/large" ? large : "small");
    }
  });
  const auto ask = [&](std::string_view path, std::string_view more, std::string_view version = "1.1") {
    RawClient client(port());
    client.send(fmt::format("GET {} HTTP/{}\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", path, version, more));
    return client.read_until("");
  };
  const std::string zipped = ask("/large", "Accept-Encoding: gzip, br\r\n");
  EXPECT_THAT(zipped, HasSubstr("Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"));
  EXPECT_LT(zipped.size(), large.size() * 3 / 4);
  EXPECT_TRUE(unzipped(zipped) == large);
  for (const std::string& plain :
       {ask("/large", ""), ask("/large", "Accept-Encoding: gzip;q=0\r\n"),
        ask("/large", "Accept-Encoding: gzip\r\n", "1.0"), ask("/small", "Accept-Encoding: gzip\r\n"),
        ask("/stream", "Accept-Encoding: gzip\r\n")})
    EXPECT_THAT(plain.substr(0, 1'000), testing::Not(HasSubstr("Content-Encoding")));
}

TEST_F(HttpServerTest, AnAnswerThatIsCodedAlreadyIsSentAsItIs) {
  const std::string coded(100'000, 'z');
  start({}, [&](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
    if (request.path == "/same") return response->send(304, {}, {}, {{"ETag", "\"1\""}});
    response->send(200, "text/plain", coded, {{"Content-Encoding", "gzip"}});
  });
  const auto ask = [&](std::string_view path) {
    RawClient client(port());
    client.send(
        fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n", path));
    return client.read_until("");
  };
  EXPECT_TRUE(ask("/coded").ends_with("Content-Length: 100000\r\n\r\n" + coded));
  EXPECT_THAT(ask("/same"), testing::AllOf(StartsWith("HTTP/1.1 304 "), testing::Not(HasSubstr("Content-Length"))));
}

TEST_F(HttpServerTest, AStreamIsCompressedWhereThatIsSwitchedOn) {
  HttpLimits limits;
  limits.compression = Compression::kAll;
  std::shared_ptr<HttpResponse> open;
  std::atomic<bool> begun{false};
  start(limits, [&](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) {
    response->begin_events();
    response->write("data: 1\n\n");
    open = response;
    begun = true;
  });
  RawClient client(port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n");
  while (!begun) std::this_thread::sleep_for(1ms);
  // The first event comes before the second is written.
  EXPECT_THAT(client.read_until("\r\n\x1f\x8b"), HasSubstr("Content-Encoding: gzip\r\n"));
  open->write("data: 2\n\n");
  open->end();
  EXPECT_EQ(unzipped(client.read_until("")), "data: 1\n\ndata: 2\n\n");
  open.reset();
}

TEST_F(HttpServerTest, ABodyThatIsNotWantedIsNotReadAndTheAnswerStillArrives) {
  start({}, [](HttpRequest request, std::shared_ptr<HttpResponse> response) {
    response->send(401, "text/plain", fmt::format("no {}", request.body.size()));
  });
  server_->set_body_check([](const HttpRequest& head) { return head.header("x-key") == "right"; });
  RawClient wrong(port());
  wrong.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n");
  EXPECT_THAT(wrong.read_until("no 0"), HasSubstr("Connection: close"));
  RawClient continues(port());
  continues.send("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_THAT(continues.read_until("no 0"), testing::Not(HasSubstr("100 Continue")));
  RawClient right(port());
  right.send("POST / HTTP/1.1\r\nHost: localhost\r\nX-Key: right\r\nContent-Length: 5\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  right.send("hello");
  EXPECT_THAT(right.read_until("no 5"), HasSubstr("Connection: keep-alive"));
}

}  // namespace
}  // namespace cairn::net
