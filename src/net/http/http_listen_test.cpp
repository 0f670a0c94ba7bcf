#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "net/http/http_test_support.h"
#include "net/http/test_certificates.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

using testing::HasSubstr;

class HttpListenTest : public testing::Test {
 protected:
  HttpListenTest() { std::filesystem::create_directory(folder_); }
  ~HttpListenTest() override {
    stop();
    std::filesystem::remove_all(folder_);
  }
  Result<void> start(const std::string& host) {
    CAIRN_TRY(server_, HttpServer::listen(
                           host, 0, {},
                           [](const HttpRequest& request, const std::shared_ptr<HttpResponse>& response) {
                             response->send(200, "text/plain",
                                            request.remote + " " + request.path + " " + request.body);
                           },
                           [](int, std::string_view message) { return std::string(message); }));
    thread_ = std::thread([this] { server_->run(); });
    return {};
  }
  void stop() {
    if (!server_) return;
    server_->stop(std::chrono::milliseconds(0));
    thread_.join();
    server_.reset();
  }
  Result<HttpReply> ask(const std::string& path, std::vector<std::pair<std::string, std::string>> headers = {}) {
    CAIRN_TRY(const ServerAddress address, parse_server_address("unix:" + socket_));
    return HttpClient().request(
        {.url = address.url + path, .body = "body", .headers = std::move(headers), .socket = address.socket});
  }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("listen_" + std::to_string(::getpid()));
  const std::string socket_ = folder_ / "s";
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpListenTest, AUnixSocketServesThisUserAndIsGoneAtTheEnd) {
  ASSERT_TRUE(start("unix:" + socket_));
  struct stat file{};
  ASSERT_EQ(::lstat(socket_.c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_TRUE(server_->on_loopback());
  EXPECT_EQ(server_->port(), 0);
  const auto reply = ask("/path");
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->body, "unix /path body");
  EXPECT_THAT(HttpServer::listen("unix:" + socket_, 0, {}, nullptr, nullptr).error().text(),
              HasSubstr("another server does"));
  EXPECT_EQ(ask("/")->status, 200);
  stop();
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(HttpListenTest, AUnixSocketHasTheRulesOfALoopbackAddress) {
  ASSERT_TRUE(start("unix:" + socket_));
  EXPECT_EQ(ask("/", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(ask("/", {{"Origin", "https://evil.example"}})->status, 403);
  EXPECT_EQ(ask("/", {{"Host", "localhost:1"}, {"Origin", "http://localhost:3000"}})->status, 200);
}

TEST_F(HttpListenTest, OnlyASocketThatADeadServerLeftIsReplaced) {
  {
    auto left = UnixListener::listen(socket_);
    ASSERT_TRUE(left);
    ASSERT_EQ(::link(socket_.c_str(), (folder_ / "copy").c_str()), 0);
  }
  std::filesystem::rename(folder_ / "copy", socket_);
  ASSERT_TRUE(start("unix:" + socket_));
  EXPECT_EQ(ask("/")->status, 200);
  const std::string text = folder_ / "text";
  std::ofstream(text) << "mine";
  EXPECT_THAT(HttpServer::listen("unix:" + text, 0, {}, nullptr, nullptr).error().text(), HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(text));
}

TEST_F(HttpListenTest, WhatNobodyListensToIsNamed) {
  EXPECT_THAT(ask("/").error().text(), HasSubstr("cannot connect to unix:" + socket_));
  EXPECT_THAT(parse_server_address("unix:").error().text(), HasSubstr("path is empty"));
  EXPECT_THAT(parse_server_address("unix:/" + std::string(kSocketPathMax, 'x')).error().text(),
              HasSubstr("bytes and the system takes"));
}

TEST_F(HttpListenTest, Ipv6MayHaveBracketsAndAPort) {
  for (const std::string host : {"::1", "[::1]", "[::1]:0"}) {
    if (const auto begun = start(host); !begun) GTEST_SKIP() << begun.error().text();
    EXPECT_TRUE(server_->on_loopback());
    const auto reply = HttpClient().request({.url = fmt::format("http://[::1]:{}/", server_->port())});
    ASSERT_TRUE(reply) << reply.error().text();
    EXPECT_THAT(reply->body, testing::StartsWith("[::1]:"));
    stop();
  }
}

TEST_F(HttpListenTest, TheAddressesOwnPortCounts) {
  ASSERT_TRUE(start("127.0.0.1:0"));
  const uint16_t port = server_->port();
  EXPECT_THAT(HttpServer::listen(fmt::format("127.0.0.1:{}", port), 1, {}, nullptr, nullptr).error().text(),
              HasSubstr(fmt::format("127.0.0.1:{}: ", port)));
}

}  // namespace
}  // namespace cairn::net
