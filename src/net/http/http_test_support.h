/// A server and a client of raw bytes for the tests of net/.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "net/http/http_client.h"
#include "net/http/http_server.h"

namespace cairn::net {

/// A plain socket, for input that a well-behaved client would not send.
class RawClient {
 public:
  RawClient() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {}
  explicit RawClient(uint16_t port) : RawClient() { connect(port); }
  ~RawClient() { close(); }
  void connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  /// Closes the sending side only.
  void finish() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(sent);
    }
  }
  void send_urgent(char byte) { ::send(socket_, &byte, 1, MSG_NOSIGNAL | MSG_OOB); }
  /// Reads until `marker` was seen, or, if it is empty, to the end of the connection.
  std::string read_until(std::string_view marker) {
    char bytes[4096];
    while (marker.empty() || got_.find(marker) == std::string::npos) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      got_.append(bytes, count);
    }
    return got_;
  }
  void forget() { got_.clear(); }

 private:
  int socket_;
  std::string got_;
};

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpLimits limits, HttpHandler handler) {
    auto listening =
        HttpServer::listen("127.0.0.1", 0, limits, std::move(handler), [](int status, std::string_view message) {
          return fmt::format("{{\"status\":{},\"message\":\"{}\"}}", status, message);
        });
    ASSERT_TRUE(listening.has_value()) << listening.error().text();
    server_ = std::move(*listening);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override { stop(); }
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0)) {
    if (!server_) return;
    server_->stop(grace);
    thread_.join();
    server_.reset();
  }
  uint16_t port() const { return server_->port(); }
  std::string url(std::string_view path = "/") const { return fmt::format("http://127.0.0.1:{}{}", port(), path); }
  /// The answer to a GET.
  Result<HttpReply> fetch(std::string_view path = "/") const { return HttpClient().request({.url = url(path)}); }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace cairn::net
