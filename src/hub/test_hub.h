/// A hub on loopback for the tests of hub/: it answers with the bytes that a test says, and can cut, stall and lie.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::hub {

/// A request as it came.
struct TestRequest {
  std::string path;  ///< with the query
  std::string text;  ///< all lines
  std::string header(std::string_view name) const {
    const size_t at = text.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return {};
    const size_t begin = at + name.size() + 4;
    return text.substr(begin, text.find('\r', begin) - begin);
  }
};

/// What is sent, as it is; then the connection is closed, after `linger` if that is set.
struct TestAnswer {
  std::string bytes;
  std::chrono::milliseconds linger{0};
};

inline std::string answer_text(int status, std::string_view headers, std::string_view body) {
  return fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}", status, headers,
                     body.size(), body);
}
inline std::string redirect_to(std::string_view url, std::string_view headers = "") {
  return answer_text(302, fmt::format("Location: {}\r\n{}", url, headers), "Found");
}
/// The bytes that the request's Range asks for (206), or all of them.
inline std::string file_answer(const TestRequest& request, std::string_view file, std::string_view headers = "") {
  unsigned long long begin = 0, end = 0;
  if (std::sscanf(request.header("Range").c_str(), "bytes=%llu-%llu", &begin, &end) != 2)
    return answer_text(200, headers, file);
  end = std::min<unsigned long long>(end, file.size() - 1);
  return answer_text(206, fmt::format("{}Content-Range: bytes {}-{}/{}\r\n", headers, begin, end, file.size()),
                     file.substr(begin, end - begin + 1));
}

class TestHub {
 public:
  using Handler = std::function<TestAnswer(const TestRequest&)>;
  explicit TestHub(Handler handler) : handler_(std::move(handler)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(socket_, 64);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~TestHub() {
    stopped_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    for (std::thread& thread : connections_) thread.join();
    ::close(socket_);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  uint16_t port() const { return port_; }
  std::vector<TestRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void accept_all() {
    while (!stopped_) {
      const int connection = ::accept(socket_, nullptr, nullptr);
      if (connection < 0) return;
      connections_.emplace_back([this, connection] { serve(connection); });
    }
  }
  void serve(int connection) {
    TestRequest request;
    char bytes[4096];
    while (request.text.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(connection, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      request.text.append(bytes, static_cast<size_t>(count));
    }
    const size_t begin = request.text.find(' ') + 1;
    request.path = request.text.substr(begin, request.text.find(' ', begin) - begin);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const TestAnswer answer = handler_(request);
    std::string_view rest = answer.bytes;
    while (!rest.empty()) {
      const ssize_t sent = ::send(connection, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      rest.remove_prefix(static_cast<size_t>(sent));
    }
    for (auto left = answer.linger; left.count() > 0 && !stopped_; left -= std::chrono::milliseconds(20))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::close(connection);
  }

  Handler handler_;
  int socket_;
  uint16_t port_ = 0;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
  std::vector<std::thread> connections_;
  std::mutex mutex_;
  std::vector<TestRequest> requests_;
};

}  // namespace cairn::hub
