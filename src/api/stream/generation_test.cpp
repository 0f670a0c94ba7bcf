#include "api/stream/generation.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "api/service.h"
#include "engine/output/event_channel.h"
#include "net/http/http_client.h"

namespace cairn::api {
namespace {

using namespace std::chrono_literals;

/// What the test and the streams of its engine share.
struct Script {
  int tokens = 0;  // of every stream
  int step_tokens = 100;
  std::chrono::milliseconds step{0};
  std::string text = "x";
  engine::FinishReason reason = engine::FinishReason::kLength;
  std::atomic<int> drained = 0;  // tokens, of all streams
  std::atomic<int> alive = 0;    // streams
};

/// A client's end of a channel that a thread of its own fills as fast as the channel takes it.
class FakeStream final : public engine::GenerateStream {
 public:
  explicit FakeStream(Script& script) : script_(script) { script_.alive.fetch_add(1); }
  ~FakeStream() override {
    channel_.abandon();
    if (thread_.joinable()) thread_.join();
    script_.alive.fetch_sub(1);
  }
  engine::Events drain() override {
    engine::Events events = channel_.drain();
    script_.drained.fetch_add(static_cast<int>(events.tokens.size()));
    return events;
  }
  engine::Events wait(std::chrono::milliseconds) override { return drain(); }
  void on_events(std::function<void()> notify) override {
    channel_.on_events(std::move(notify));
    thread_ = std::thread([this] { publish_all(); });
  }
  void cancel() override { channel_.cancel(); }

 private:
  void publish_all() {
    for (int sent = 0; sent < script_.tokens;) {
      while (channel_.stalled() && !channel_.cancelled()) std::this_thread::sleep_for(100us);
      if (channel_.cancelled()) return;
      engine::Events events;
      for (int i = 0; i < script_.step_tokens && sent < script_.tokens; ++i, ++sent) {
        engine::TokenEvent event;
        event.text = script_.text;
        events.tokens.push_back(std::move(event));
      }
      channel_.publish(std::move(events));
      std::this_thread::sleep_for(script_.step);
    }
    engine::Events end;
    end.finished = true;
    end.finish.reason = script_.reason;
    end.finish.error = {Code::kInternal, "scripted", {}};
    channel_.publish(std::move(end));
  }

  Script& script_;
  engine::EventChannel channel_;
  std::thread thread_;
};

class FakeEngine final : public engine::Engine {
 public:
  explicit FakeEngine(Script& script) : script_(script) {}
  Result<std::unique_ptr<engine::GenerateStream>> submit(engine::GenerateRequest) override {
    return std::make_unique<FakeStream>(script_);
  }
  void stop() override {}
  engine::EngineStats stats() const override { return {}; }
  Result<engine::PrefixReport> prefix_report(std::string_view, const engine::Party&) const override {
    return fail(Code::kNotFound, "none");
  }
  int32_t context_tokens() const override { return 1; }

 private:
  Script& script_;
};

/// "data: CHOICE TEXT".
class PlainWriter final : public ResponseSerializer {
 public:
  PlainWriter(bool streams, std::atomic<int>& settles) : streams_(streams), settles_(settles) {}
  ~PlainWriter() override {
    if (disk_.joinable()) disk_.join();
  }
  bool streams() const override { return streams_; }
  bool settle(const Error*, std::function<void()> ready) override {
    if (settles_ == 0) return false;
    disk_ = std::thread([this, ready = std::move(ready)] {
      std::this_thread::sleep_for(20ms);
      settled_ = true;
      settles_.fetch_add(1);
      ready();
    });
    return true;
  }
  std::string begin() override { return "data: begin\n\n"; }
  std::string token(int choice, engine::TokenEvent&& event) override {
    if (event.text == "throw") throw std::runtime_error("scripted");
    if (event.text == "no memory") throw std::bad_alloc();
    if (event.text == "slow") std::this_thread::sleep_for(2 * kTimeSlice);
    return fmt::format("data: {} {}\n\n", choice, event.text);
  }
  std::string finish(int choice, engine::Finish&&) override { return fmt::format("data: {} end\n\n", choice); }
  std::string done() override { return settled_ ? "data: settled\n\n" : "data: done\n\n"; }
  std::string failure(const Error& error) override { return fmt::format("data: {}\n\n", error.message); }

 private:
  bool streams_;
  std::atomic<int>& settles_;  // 0: it has nothing to settle
  bool settled_ = false;       // read by `done`, after `ready`
  std::thread disk_;
};

class GenerationTest : public testing::Test {
 protected:
  GenerationTest() {
    auto listening = net::HttpServer::listen(
        "127.0.0.1", 0, {},
        [this](const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response) {
          std::vector<engine::GenerateRequest> requests(request.path == "/three" ? 3 : 1);
          auto serializer = std::make_unique<PlainWriter>(request.path != "/whole", settles_);
          Generation::start({service_, request, std::move(response), RequestContext()},
                            {std::shared_ptr<engine::Engine>(std::shared_ptr<void>(), &engine_), std::move(requests),
                             std::move(serializer), ByteShare(budget_)});
        },
        [](int, std::string_view message) { return std::string(message); });
    server_ = std::move(*listening);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~GenerationTest() override {
    server_->stop(0ms);
    thread_.join();
  }

  std::string url(const std::string& path) const { return fmt::format("http://127.0.0.1:{}{}", server_->port(), path); }
  Result<net::HttpReply> whole() const { return net::HttpClient().request({.url = url("/whole")}); }
  std::vector<std::string> ask(const std::string& path) {
    net::EventSplitter splitter;
    std::vector<std::string> events;
    const auto reply = net::HttpClient().request({.url = url(path)}, [&](std::string_view bytes) {
      for (auto& event : splitter.push(bytes)) events.push_back(std::move(event));
    });
    EXPECT_TRUE(reply.has_value()) << reply.error().text();
    return events;
  }
  int connect_and_ask(const std::string& path) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string text = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return socket;
  }
  void expect_no_streams() {
    for (int i = 0; i < 500 && script_.alive != 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(script_.alive, 0);
  }
  /// What an exchange held is given back when it is over, which may be after the client has its answer.
  void expect_nothing_held() {
    for (int i = 0; i < 500 && budget_->used() != 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(budget_->used(), 0);
  }

  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(int64_t{1} << 40);
  std::atomic<int> settles_ = 0;
  Script script_;
  FakeEngine engine_{script_};
  const loader::Registry registry_;
  Service service_{registry_};
  std::unique_ptr<net::HttpServer> server_;
  std::thread thread_;
};

TEST_F(GenerationTest, WritesEveryChoiceInItsOrder) {
  script_.tokens = 250;
  const auto events = ask("/three");
  ASSERT_EQ(events.size(), 1u + 3 * 251 + 1);
  EXPECT_EQ(events.front(), "begin");
  EXPECT_EQ(events.back(), "done");
  for (int choice = 0; choice < 3; ++choice) {
    const auto said = [&](std::string_view what) {
      return std::ranges::count(events, fmt::format("{} {}", choice, what));
    };
    EXPECT_EQ(said("x"), 250);
    EXPECT_EQ(said("end"), 1);
  }
  expect_no_streams();
}

TEST_F(GenerationTest, AClientThatDoesNotReadLeavesTokensWithTheEngineAndLosesNone) {
  script_.tokens = 6'000;
  script_.text = std::string(2'000, '~');
  const int socket = connect_and_ask("/three");
  int before = -1;
  for (int i = 0; i < 100 && before != script_.drained; ++i) {
    before = script_.drained;
    std::this_thread::sleep_for(100ms);
  }
  // What is unsent, what the two sockets hold, and a drain of each choice that is not written yet.
  constexpr size_t kSocketsMax = 8 << 20;
  EXPECT_LE(static_cast<size_t>(before),
            (kUnsentBytesMax + kSocketsMax) / script_.text.size() +
                3 * (engine::kPendingTokensMax + static_cast<size_t>(script_.step_tokens)));
  EXPECT_LT(before, 3 * script_.tokens);
  EXPECT_EQ(script_.alive, 3);
  size_t letters = 0;
  std::string part(1 << 16, '\0');
  for (ssize_t count; (count = ::recv(socket, part.data(), part.size(), 0)) > 0;) {
    letters += std::count(part.begin(), part.begin() + count, '~');
  }
  ::close(socket);
  EXPECT_EQ(letters, 3u * script_.tokens * script_.text.size());
  EXPECT_EQ(script_.drained, 3 * script_.tokens);
  expect_no_streams();
}

TEST_F(GenerationTest, TokensThatComeWhileOthersAreWrittenAreNotLeftWithTheEngine) {
  script_.tokens = 10;  // all of them and the end have come before the third is written
  script_.step_tokens = 4;
  script_.step = 2ms;
  script_.text = "slow";
  for (const char* path : {"/stream", "/three"}) EXPECT_EQ(ask(path).back(), "done");
  expect_no_streams();
}

TEST_F(GenerationTest, AClientThatLeavesWhileItDoesNotReadEndsItsStreams) {
  script_.tokens = 6'000;
  script_.text = std::string(2'000, '~');
  const int socket = connect_and_ask("/three");
  while (script_.drained == 0) std::this_thread::sleep_for(1ms);
  ::close(socket);
  expect_no_streams();
}

TEST_F(GenerationTest, AFailureEndsAStreamInWordsAndAWholeAnswerWithAStatus) {
  script_.tokens = 10;
  script_.reason = engine::FinishReason::kError;
  const auto events = ask("/stream");
  ASSERT_EQ(events.size(), 12u);
  EXPECT_EQ(events.back(), "scripted");
  const auto reply = whole();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 500);
  EXPECT_THAT(reply->body, testing::HasSubstr("scripted"));
  expect_no_streams();
}

TEST_F(GenerationTest, WhatAWriterThrowsIsTheAnswersErrorAndNobodyElses) {
  script_.tokens = 10;
  script_.text = "throw";
  EXPECT_THAT(ask("/stream"), testing::ElementsAre("begin", "unexpected: scripted"));
  auto reply = whole();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 500);
  script_.text = "no memory";
  reply = whole();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 503);
  EXPECT_THAT(reply->body, testing::HasSubstr("out_of_memory"));
  expect_no_streams();
  script_.text = "x";
  EXPECT_EQ(ask("/stream").back(), "done");
  expect_nothing_held();
}

TEST_F(GenerationTest, WhatDoesNotFitIntoTheBudgetIsRefusedAndGivenBack) {
  script_.tokens = 10;
  budget_ = std::make_shared<ByteBudget>(1'000);
  auto reply = whole();  // the events that may wait are more than that
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 503);
  EXPECT_THAT(reply->body, testing::HasSubstr("--request-bytes"));
  EXPECT_EQ(script_.drained, 0);
  budget_ = std::make_shared<ByteBudget>(1 << 20);
  script_.text = std::string(100'000, 'x');
  reply = whole();  // and so is the text
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(ask("/stream").back(), no_request_bytes().message);
  script_.text = "x";
  EXPECT_EQ(whole()->status, 200);
  expect_no_streams();
  expect_nothing_held();
}

TEST_F(GenerationTest, TheEndWaitsForWhatIsToBeStored) {
  script_.tokens = 10;
  settles_ = 1;
  EXPECT_EQ(ask("/stream").back(), "settled");
  EXPECT_EQ(settles_, 2);
  const auto reply = whole();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->body, "data: settled\n\n");
  script_.tokens = 1'000'000;
  const int socket = connect_and_ask("/stream");
  ::close(socket);  // and who leaves meanwhile is not missed
  expect_no_streams();
}

}  // namespace
}  // namespace cairn::api
