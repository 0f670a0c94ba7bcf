#include "net/frames/frame_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "net/frames/frame_client.h"
#include "net/http/http_server.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// State shared by the test and its sessions.
struct Shared {
  std::atomic<int> open = 0;
  std::atomic<int> closed = 0;
  std::atomic<int> messages = 0;
  std::weak_ptr<FrameSender> sender;  // sender of the last connection
};

/// Answers "POSITION: TEXT", or TEXT alone if it is long; "many N" with N kilobytes in as many messages; "throw" with
/// an exception.
class EchoSession final : public FrameSession {
 public:
  EchoSession(Shared& shared, std::shared_ptr<FrameSender> sender) : shared_(shared), sender_(std::move(sender)) {
    shared_.open.fetch_add(1);
    shared_.sender = sender_;
  }
  void message(std::string_view text, std::string_view position) override {
    shared_.messages.fetch_add(1);
    if (text == "be busy") busy_ = true;
    if (text.starts_with("throw")) throw std::runtime_error("boom");
    if (text.starts_with("many ")) {
      const int count = std::stoi(std::string(text.substr(5)));
      for (int i = 0; i < count; ++i) sender_->send(std::string(1'000, 'x'));
      return;
    }
    sender_->send(text.size() > 1'000 ? std::string(text) : fmt::format("{}: {}", position, text));
  }
  void failed(const Error& error) override {
    sender_->send(fmt::format("{}: {}", code_name(error.code), error.text()));
  }
  bool busy() const override { return busy_; }
  void input_ended() override {
    sender_->send("that was all");
    sender_->end();
  }
  void closed() override {
    shared_.open.fetch_sub(1);
    shared_.closed.fetch_add(1);
  }

 private:
  Shared& shared_;
  std::shared_ptr<FrameSender> sender_;
  bool busy_ = false;
};

std::unique_ptr<HttpServer> listen_http() {
  auto listening = HttpServer::listen(
      "127.0.0.1", 0, {},
      [](const HttpRequest&, const std::shared_ptr<HttpResponse>& response) { response->send(200, "text/plain", ""); },
      [](int, std::string_view message) { return std::string(message); });
  return std::move(*listening);
}

class FrameServerTest : public testing::Test {
 protected:
  FrameServerTest() {
    std::string name = testing::TempDir() + "cairn-frames-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/s";
  }
  ~FrameServerTest() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  FrameHandler handler() {
    return [this](std::shared_ptr<FrameSender> sender) {
      return std::make_shared<EchoSession>(shared_, std::move(sender));
    };
  }
  void start(const FrameLimits& limits = {}) {
    server_ = listen_http();
    const auto listening = server_->listen_frames(path_, limits, handler());
    ASSERT_TRUE(listening.has_value()) << listening.error().text();
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop(std::chrono::milliseconds grace = 0ms) {
    if (!server_) return;
    server_->stop(grace);
    thread_.join();
    server_.reset();
  }
  FrameClient client(Framing framing = Framing::kLength) { return std::move(*FrameClient::connect(path_, framing)); }
  int raw() { return *connect_unix(path_); }
  /// Waits until `value` is `expected`.
  static void expect_soon(const std::atomic<int>& value, int expected) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (value != expected && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(value, expected);
  }

  Shared shared_;
  std::string folder_, path_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

std::string next(FrameClient& client) {
  const auto message = client.read();
  return !message ? "! " + message.error().text() : message->value_or("the end");
}

std::string read_to_end(int socket) {
  std::string got;
  char bytes[4096];
  for (ssize_t count = 0; (count = ::recv(socket, bytes, sizeof bytes, 0)) > 0;) got.append(bytes, count);
  return got;
}

TEST_F(FrameServerTest, AnswersInTheFramingOfTheClient) {
  start();
  for (const Framing framing : {Framing::kLength, Framing::kLines}) {
    const std::string name = framing == Framing::kLines ? "line" : "frame";
    FrameClient one = client(framing), other = client(framing);
    ASSERT_TRUE(one.send("{\"a\": 1}").has_value() && other.send("{\"b\": 1}").has_value());
    ASSERT_TRUE(one.send("{\"a\": 2}").has_value());
    EXPECT_EQ(next(one), name + " 1: {\"a\": 1}");
    EXPECT_EQ(next(one), name + " 2: {\"a\": 2}");
    EXPECT_EQ(next(other), name + " 1: {\"b\": 1}");
    one.end();
    EXPECT_EQ(next(one), "that was all");
    EXPECT_EQ(next(one), "the end");
  }
}

TEST_F(FrameServerTest, TheLargestMessageFitsBothWays) {
  start();
  for (const Framing framing : {Framing::kLength, Framing::kLines}) {
    FrameClient large = client(framing);
    const std::string most(kFrameBytesMax, '{');
    ASSERT_TRUE(large.send(most).has_value());
    ASSERT_EQ(next(large), most);
    EXPECT_EQ(large.send(most + "x").error().code, Code::kTooLarge);
    EXPECT_EQ(large.send("").error().code, Code::kTooLarge);
  }
}

TEST_F(FrameServerTest, AnInvalidFrameGetsAnErrorAndLaterFramesAreAnswered) {
  start();
  const int socket = raw();
  const std::string bytes = std::string(4, '\0') + encode_frame(Framing::kLength, "throw") +
                            encode_frame(Framing::kLength, "x") + "\xff\xff\xff\x7f" + "more";
  ASSERT_EQ(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  FrameReader reader(Framing::kLength);
  reader.push(read_to_end(socket));
  ::close(socket);
  EXPECT_THAT(**reader.next(), HasSubstr("invalid_argument: a frame of length 0 has no message (frame 1, byte 0"));
  EXPECT_EQ(**reader.next(), "internal: internal error (frame 2)");
  EXPECT_EQ(**reader.next(), "frame 3: x");
  EXPECT_THAT(**reader.next(), HasSubstr("too_large: a frame of 2147483647 bytes is over the limit of 1048576"));
  EXPECT_EQ(*reader.next(), std::nullopt);
  expect_soon(shared_.closed, 1);
}

TEST_F(FrameServerTest, TheLastLineNeedsNoLineFeed) {
  start();
  const int socket = raw();
  ASSERT_EQ(::send(socket, "{}  \n{\"x\":1}", 12, MSG_NOSIGNAL), 12);
  ::shutdown(socket, SHUT_WR);
  EXPECT_EQ(read_to_end(socket), "line 1: {}  \nline 2: {\"x\":1}\nthat was all\n");
  ::close(socket);
}

TEST_F(FrameServerTest, AClientThatGoesAwayIsNoticedAtOnce) {
  start();
  for (const bool half_closes_first : {false, true}) {
    const int closed = shared_.closed;
    FrameClient one = client();
    ASSERT_TRUE(one.send("x").has_value());
    EXPECT_EQ(next(one), "frame 1: x");
    if (half_closes_first) one.end();
    {
      const FrameClient gone = std::move(one);
    }
    expect_soon(shared_.closed, closed + 1);
  }
  EXPECT_EQ(shared_.open, 0);
}

TEST_F(FrameServerTest, TheServerStopsReadingFromAClientThatDoesNotRead) {
  start({.read_pause_bytes = 100'000});
  FrameClient client = this->client();
  // Each answer has 50 kB: they fill the system's buffers and the limit, after which no further message is read.
  constexpr int kSent = 200;
  for (int i = 0; i < kSent; ++i) ASSERT_TRUE(client.send("many 50").has_value());
  std::this_thread::sleep_for(300ms);
  EXPECT_GE(shared_.messages, 2);
  EXPECT_LT(shared_.messages, 30);
  for (int i = 0; i < kSent * 50; ++i) ASSERT_EQ(next(client).size(), 1'000u);
  EXPECT_EQ(shared_.messages, kSent);
}

TEST_F(FrameServerTest, AClientWithTooManyUnsentBytesIsDropped) {
  start({.unsent_bytes_max = 1 << 20});
  FrameClient greedy = client(), modest = client();
  ASSERT_TRUE(greedy.send("many 5000").has_value());
  expect_soon(shared_.closed, 1);
  ASSERT_TRUE(modest.send("x").has_value());
  EXPECT_EQ(next(modest), "frame 1: x");
}

TEST_F(FrameServerTest, AClientThatReadsNothingIsDroppedAfterTheTimeOut) {
  start({.read_timeout = 1s, .write_timeout = 1s});
  FrameClient client = this->client();
  ASSERT_TRUE(client.send("many 900").has_value());
  expect_soon(shared_.closed, 1);
}

TEST_F(FrameServerTest, AnIncompleteMessageTimesOut) {
  start({.read_timeout = 1s});
  FrameClient idle = client();
  const int socket = raw();
  ASSERT_EQ(::send(socket, "{\"id\"", 5, MSG_NOSIGNAL), 5);
  EXPECT_THAT(read_to_end(socket), HasSubstr("the rest of a message has not come for 1 s (line 1, byte 0"));
  ::close(socket);
  ASSERT_TRUE(idle.send("still here").has_value());
  EXPECT_EQ(next(idle), "frame 1: still here");
}

TEST_F(FrameServerTest, IdleConnectionsAreClosedWithAWordAndBusyOnesStay) {
  start({.idle_timeout = 1s});
  FrameClient idle = client(), busy = client();
  ASSERT_TRUE(busy.send("be busy").has_value());
  EXPECT_EQ(next(busy), "frame 1: be busy");
  EXPECT_THAT(next(idle), HasSubstr("nothing has come for 1 s"));
  EXPECT_EQ(next(idle), "the end");
  std::this_thread::sleep_for(1500ms);  // longer than a connection may be idle
  ASSERT_TRUE(busy.send("still here").has_value());
  EXPECT_EQ(next(busy), "frame 2: still here");
}

TEST_F(FrameServerTest, LongMessagesAreRefusedAndTheNextIsAnswered) {
  start({.message_bytes_max = 10});
  FrameClient client = this->client();
  ASSERT_TRUE(client.send("eleven byte").has_value());
  EXPECT_THAT(next(client), HasSubstr("the message has 11 bytes, but 10 are the most"));
  ASSERT_TRUE(client.send("ten  bytes").has_value());
  EXPECT_EQ(next(client), "frame 2: ten  bytes");
}

TEST_F(FrameServerTest, TheModeOfTheSocketIsAsAskedAndItsTrafficIsCounted) {
  const auto traffic = std::make_shared<Traffic>();
  start({.mode = 0660, .connections_max = 1, .traffic = traffic});
  struct stat file{};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0660u);
  {
    FrameClient client = this->client();
    ASSERT_TRUE(client.send("x").has_value());
    EXPECT_EQ(next(client), "frame 1: x");
    FrameClient second = this->client();
    EXPECT_THAT(next(second), HasSubstr("unavailable"));
  }
  expect_soon(shared_.closed, 2);
  stop();
  EXPECT_EQ(traffic->accepted, 2);
  EXPECT_EQ(traffic->closed, 2);
  EXPECT_EQ(traffic->refused, 1);
  EXPECT_GE(traffic->received_bytes, 5);  // four of a length, and one
  EXPECT_GE(traffic->sent_bytes, 10);
}

TEST_F(FrameServerTest, ConnectionsOverTheLimitAreRefusedWithAnError) {
  start({.connections_max = 2});
  FrameClient first = client(), second = client();
  for (FrameClient* one : {&first, &second}) {
    ASSERT_TRUE(one->send("x").has_value());
    EXPECT_EQ(next(*one), "frame 1: x");
  }
  FrameClient third = client();
  EXPECT_THAT(next(third), HasSubstr("unavailable: there are 2 connections"));
  EXPECT_EQ(next(third), "the end");
}

TEST_F(FrameServerTest, OtherThreadsMayPostToTheServersThread) {
  start();
  FrameClient client = this->client();
  ASSERT_TRUE(client.send("x").has_value());
  EXPECT_EQ(next(client), "frame 1: x");
  const auto sender = shared_.sender.lock();
  sender->post([sender] { sender->send("posted"); });
  EXPECT_EQ(next(client), "posted");
}

TEST_F(FrameServerTest, StoppingEndsTheInputOfAllSessions) {
  start();
  FrameClient client = this->client();
  ASSERT_TRUE(client.send("x").has_value());
  EXPECT_EQ(next(client), "frame 1: x");
  stop(10s);
  EXPECT_EQ(next(client), "that was all");
  EXPECT_EQ(next(client), "the end");
  EXPECT_EQ(shared_.closed, 1);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FrameServerTest, TheSocketFileIsPrivateAndRemovedWithTheServer) {
  start();
  struct stat file{};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  const auto second = listen_http()->listen_frames(path_, {}, handler());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("another server does"));
  FrameClient client = this->client();  // the socket's file is still there
  stop();
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(FrameClient::connect(path_).error().code, Code::kNotFound);
}

TEST_F(FrameServerTest, TheSocketFileOfADeadServerIsReplaced) {
  {
    auto dead = UnixListener::listen(path_);
    ASSERT_TRUE(dead.has_value());
    ::close(dead->release());
    std::filesystem::rename(path_, path_ + "-kept");  // so that the file outlives its listener
  }
  std::filesystem::rename(path_ + "-kept", path_);
  EXPECT_EQ(FrameClient::connect(path_).error().code, Code::kUnavailable);
  start();
  FrameClient client = this->client();
  ASSERT_TRUE(client.send("x").has_value());
  EXPECT_EQ(next(client), "frame 1: x");
}

TEST_F(FrameServerTest, AFailureToListenNamesItsReason) {
  std::ofstream(path_) << "precious";
  const auto refused = UnixListener::listen(path_);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(path_));
  const auto too_long = UnixListener::listen(std::string(108, 'x'));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_THAT(too_long.error().message, HasSubstr("has 108 bytes and the system takes 107"));
  EXPECT_EQ(UnixListener::listen("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(UnixListener::listen(folder_ + "/none/s").error().code, Code::kIo);
}

TEST_F(FrameServerTest, ASocketFileOfAnotherServerIsNotRemoved) {
  {
    auto listener = UnixListener::listen(path_);
    ASSERT_TRUE(listener.has_value());
    std::filesystem::remove(path_);
    std::ofstream(path_) << "another";
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace cairn::net
