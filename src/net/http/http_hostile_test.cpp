// What hostile clients and faulty handlers can do to a server: it ends their requests, answers if it can, and serves
// the others.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <new>
#include <stdexcept>

#include "net/http/http_test_support.h"

namespace cairn::net {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class HttpHostileTest : public HttpServerTest {
 protected:
  void expect_alive() { EXPECT_EQ(fetch("/fine")->status, 200); }
  /// The complete answer to `bytes`, to the end of the connection.
  std::string ask(const std::string& bytes) {
    RawClient client(port());
    client.send(bytes);
    return client.read_until("");
  }
  template <class Condition>
  static void expect_soon(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(condition());
  }
};

std::string get(std::string_view path, std::string_view version = "1.1") {
  return fmt::format("GET {} HTTP/{}\r\nHost: localhost\r\n\r\n", path, version);
}

void fine(const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
  response->send(200, "text/plain", request.path + " " + request.body.substr(0, 10));
}

// A regression: such a trailer ended the process, as Beast threw std::length_error past the connection.
TEST_F(HttpHostileTest, LongTrailersOfAnySizeAreRefused) {
  start({}, fine);
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
  for (const size_t bytes : {65'535, 65'536, 65'537, 100'000, 1'000'000}) {
    EXPECT_THAT(ask(head + "X-T: " + std::string(bytes, 'v') + "\r\n\r\n"), StartsWith("HTTP/1.1 431")) << bytes;
    expect_alive();
  }
}

TEST_F(HttpHostileTest, EndlessTrailersExtensionsAndZerosAreRefusedAtTheLimit) {
  start({}, fine);
  const std::string head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& endless : {std::string("0\r\nX-T: 1\r\n"), std::string("1;extension"), std::string("000")}) {
    std::string more = endless;
    while (more.size() < 200'000) more += endless.starts_with("0\r\n") ? "X-T: 1\r\n" : "0";
    EXPECT_THAT(ask(head + more), StartsWith("HTTP/1.1 431")) << endless;
  }
  expect_alive();
}

TEST_F(HttpHostileTest, BodiesOverTheCommonBudgetAreRefusedAndSmallRequestsServed) {
  constexpr size_t kBody = 600'000;
  HttpLimits limits;
  limits.budget = std::make_shared<ByteBudget>(1 << 20);
  start(limits, fine);
  const std::string head = fmt::format("POST /b HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", kBody);
  RawClient first(port());
  first.send(head + std::string(kBody - 1, 'x'));
  expect_soon([&] { return limits.budget->used() >= static_cast<int64_t>(kBody) - kUncountedBytes - 1; });
  const std::string refused = ask(head + std::string(kBody, 'y'));
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("\r\nRetry-After: 1\r\n"));
  expect_alive();
  first.send("x");
  EXPECT_THAT(first.read_until("/b x"), StartsWith("HTTP/1.1 200"));
  first.close();
  expect_soon([&] { return limits.budget->used() == 0; });
}

TEST_F(HttpHostileTest, AnswersThatDoNotFitIntoTheBudgetAre503) {
  HttpLimits limits;
  limits.budget = std::make_shared<ByteBudget>(1 << 20);
  start(limits, [](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
    response->send(200, "text/plain", std::string(request.path == "/large" ? 2 << 20 : 100, 'x'));
  });
  EXPECT_EQ(fetch("/large")->status, 503);
  expect_alive();
  EXPECT_EQ(limits.budget->used(), 0);
}

TEST_F(HttpHostileTest, AnExceptionOfAHandlerFailsItsOwnRequestOnly) {
  start({}, [](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
    if (request.path == "/error") throw std::runtime_error("boom");
    if (request.path == "/memory") throw std::bad_alloc();
    if (request.path == "/number") throw 7;
    fine(request, response);
  });
  EXPECT_EQ(fetch("/error")->status, 500);
  EXPECT_EQ(fetch("/number")->status, 500);
  EXPECT_EQ(fetch("/memory")->status, 503);
  expect_alive();
}

TEST_F(HttpHostileTest, AnExceptionOfACallbackFailsItsOwnRequestOnly) {
  start({}, [](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
    const auto boom = [response] { throw std::runtime_error("boom"); };
    if (request.path == "/posted") return response->post(boom);
    if (request.path == "/posted-memory") return response->post([response] { throw std::bad_alloc(); });
    if (request.path == "/drained") return response->on_drained(0, boom);
    if (request.path == "/closed") response->on_close([] { throw std::runtime_error("boom"); });
    if (request.path == "/stream") {
      response->begin_events();
      response->write("data: one\n\n");
      return response->post(boom);
    }
    fine(request, response);
  });
  EXPECT_EQ(fetch("/posted")->status, 500);
  EXPECT_EQ(fetch("/posted-memory")->status, 503);
  EXPECT_EQ(fetch("/drained")->status, 500);
  EXPECT_EQ(fetch("/closed")->status, 200);
  // The last chunk is missing, so that the client sees that the stream was cut.
  const std::string stream = ask(get("/stream"));
  EXPECT_THAT(stream, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(stream, testing::Not(HasSubstr("\r\n0\r\n\r\n")));
  expect_alive();
}

// The answer comes from a thread of its own, so that the server is waiting when the client stops sending.
TEST_F(HttpHostileTest, AClientThatOnlyStopsSendingGetsItsAnswer) {
  std::vector<std::thread> workers;
  std::atomic<int> closed = 0;
  start({}, [&](const HttpRequest& request, std::shared_ptr<HttpResponse> response) {
    if (request.path == "/stream") response->begin_events();
    response->on_close([&] { closed.fetch_add(1); });
    workers.emplace_back([path = request.path, response = std::move(response)] {
      std::this_thread::sleep_for(100ms);
      if (path == "/stream") {
        response->write("data: late\n\n");
        response->end();
      } else {
        response->send(200, "text/plain", "late");
      }
    });
  });
  for (const std::string path : {"/whole", "/stream"}) {
    RawClient client(port());
    client.send(get(path) + get(path));  // requests sent before count, too
    client.finish();
    const std::string got = client.read_until("");
    const size_t first = got.find("late");
    ASSERT_NE(first, std::string::npos) << got;
    EXPECT_NE(got.find("late", first + 1), std::string::npos) << got;
  }
  expect_soon([&] { return closed == 4; });
  for (auto& worker : workers) worker.join();
}

TEST_F(HttpHostileTest, AClientThatClosesAfterSendingIsNoticedByAProbe) {
  std::atomic<int> closed = 0, begun = 0;
  std::vector<std::shared_ptr<HttpResponse>> held;  // responses that are never answered
  start({}, [&](const HttpRequest& request, std::shared_ptr<HttpResponse> response) {
    response->on_close([&] { closed.fetch_add(1); });
    if (request.path == "/stream") response->begin_events();
    if (request.path == "/lines") response->begin_events({}, {"application/x-ndjson", ""});
    held.push_back(std::move(response));
    begun.fetch_add(1);
  });
  int gone = 0;
  for (const char* version : {"1.1", "1.0"}) {
    for (const std::string path : {"/whole", "/stream", "/lines"}) {
      RawClient client(port());
      client.send(get(path, version));
      ++gone;
      expect_soon([&] { return begun == gone; });
      client.close();
      expect_soon([&] { return closed == gone; });
    }
  }
  held.clear();  // the exchanges are over, and responses may not outlive the server
  stop();
}

// The bytes sent ahead fill the read-ahead buffer, so that the server waits only for the connection's end.
TEST_F(HttpHostileTest, UrgentDataCostsNoProcessorTime) {
  std::atomic<bool> begun = false;
  std::shared_ptr<HttpResponse> held;
  clockid_t clock{};
  start({}, [&](const HttpRequest&, std::shared_ptr<HttpResponse> response) {
    held = std::move(response);
    ::pthread_getcpuclockid(::pthread_self(), &clock);
    begun = true;
  });
  RawClient client(port());
  client.send(get("/") + std::string(100'000, 'x'));
  client.send_urgent('!');
  expect_soon([&] { return begun.load(); });
  const auto processor_ms = [&] {
    timespec time{};
    ::clock_gettime(clock, &time);
    return time.tv_sec * 1'000 + time.tv_nsec / 1'000'000;
  };
  const auto before = processor_ms();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(processor_ms() - before, 100);
  held.reset();  // a response may not outlive the server
  stop();
}

TEST_F(HttpHostileTest, AHalfSentRequestDoesNotDelayStopping) {
  std::atomic<bool> begun = false;
  std::shared_ptr<HttpResponse> held;
  start({}, [&](const HttpRequest&, std::shared_ptr<HttpResponse> response) {
    held = std::move(response);
    begun = true;
  });
  RawClient half(port()), body(port()), idle(port()), whole(port());
  half.send("POST / HTTP/1.1\r\nHost: loc");
  body.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12");
  whole.send(get("/"));
  expect_soon([&] { return begun && server_->connections() == 4; });
  server_->stop(600s);
  for (RawClient* client : {&half, &body, &idle}) EXPECT_EQ(client->read_until(""), "");
  held->send(200, "text/plain", "answered");
  held.reset();
  EXPECT_THAT(whole.read_until(""), HasSubstr("answered"));
  thread_.join();  // long before the grace time
  server_.reset();
}

TEST_F(HttpHostileTest, OnlyNamesAndPagesOfThisMachineAreAccepted) {
  std::atomic<int> ran = 0;
  auto listening = HttpServer::listen(
      "127.0.0.1", 0, {},
      [&](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
        ran.fetch_add(1);
        fine(request, response);
      },
      [](int, std::string_view message) { return std::string(message); });
  server_ = std::move(*listening);
  server_->set_browser_rules({.hosts = {"box.lan"}});
  EXPECT_TRUE(server_->on_loopback());
  thread_ = std::thread([this] { server_->run(); });
  const auto answer = [&](std::string_view host, std::string_view header) {
    return ask(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n", host, header));
  };
  EXPECT_THAT(answer("localhost", ""), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer("127.0.0.1:8080", "Origin: http://localhost:3000\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer("box.lan", ""), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(ran, 3);
  EXPECT_THAT(answer("evil.example", ""), testing::AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("--allow-host")));
  EXPECT_THAT(answer("localhost", "Origin: http://evil.example\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer("localhost", "Sec-Fetch-Site: cross-site\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"), StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(ran, 3);
}

TEST(HttpServerOnEveryAddress, AcceptsAnyHostName) {
  auto listening = HttpServer::listen("0.0.0.0", 0, {}, fine, [](int, std::string_view) { return std::string(); });
  ASSERT_TRUE(listening.has_value());
  EXPECT_FALSE((*listening)->on_loopback());
  std::thread thread([&] { (*listening)->run(); });
  {
    RawClient client((*listening)->port());
    client.send("GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(client.read_until(""), StartsWith("HTTP/1.1 200"));
  }
  (*listening)->stop(0ms);
  thread.join();
}

/// While an object lives, this process can open no more files.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int free = ::open("/dev/null", O_RDONLY);  // the lowest free descriptor
    ::close(free);
    const rlimit none{static_cast<rlim_t>(free), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptorsLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(HttpHostileTest, ClientsGetAnErrorWhenThereAreNoDescriptors) {
  start({}, fine);
  // No other client was here: its connection could end below, and give its descriptor back.
  RawClient served(port());
  served.send(get("/one"));
  served.read_until("/one");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(std::make_unique<RawClient>());
  std::vector<std::string> answers;
  {
    // Nothing is compared here: UBSan opens a pipe to look at an object of a type that it has not seen.
    const NoDescriptorsLeft none;
    for (const auto& client : clients) {
      client->connect(port());
      answers.push_back(client->read_until(""));
    }
    served.send(get("/two"));
    answers.push_back(served.read_until("/two"));
  }
  EXPECT_THAT(answers, ElementsAre(StartsWith("HTTP/1.1 503"), StartsWith("HTTP/1.1 503"), StartsWith("HTTP/1.1 503"),
                                   HasSubstr("/two")));
  expect_alive();
}

}  // namespace
}  // namespace cairn::net
