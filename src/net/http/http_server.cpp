#include "net/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <exception>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "net/coroutines.h"
#include "net/descriptors.h"
#include "net/exceptions.h"
#include "net/frames/frame_listener.h"
#include "net/http/http_connection.h"
#include "net/http/percent.h"
#include "net/listen_address.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
using AnyStream = asio::generic::stream_protocol;  // of TCP or of a Unix socket
using asio::ip::tcp;
using boost::system::error_code;

/// Time between two log lines about missing descriptors.
constexpr std::chrono::seconds kComplaintPause{10};
constexpr size_t kDroppedBytes = 4 << 10;

/// Under this name the clients of a Unix socket ask, who need one for the line Host.
constexpr std::string_view kUnixHost = "localhost";

std::optional<tcp::endpoint> tcp_endpoint(const AnyStream::endpoint& generic) {
  tcp::endpoint endpoint;
  const int family = generic.protocol().family();
  if ((family != AF_INET && family != AF_INET6) || generic.size() > endpoint.capacity()) return std::nullopt;
  std::memcpy(endpoint.data(), generic.data(), generic.size());
  endpoint.resize(generic.size());
  return endpoint;
}

/// "127.0.0.1:54321", "[::1]:54321", or "unix".
std::string remote_text(const AnyStream::socket& socket) {
  error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return {};
  const auto address = tcp_endpoint(peer);
  return address ? fmt::format("{}:{}", url_host(address->address().to_string()), address->port()) : "unix";
}

class Server final : public HttpServer {
 public:
  Server(const HttpLimits& limits, HttpHandler handler, HttpErrorBody error_body)
      : service_{limits, std::move(handler), std::move(error_body)},
        acceptor_(context_),
        deadline_(context_),
        interval_timer_(context_) {}

  // Coroutine frames hold connections, which refer to service_, so they are destroyed first.
  ~Server() override {
    for (auto& [id, connection] : connections_) connection->stop(true);
    connections_.clear();
  }

  Result<void> bind(const ListenAddress& address, uint16_t port) {
    if (!address.socket.empty()) return bind_unix(address.socket);
    const std::string& host = address.host;
    port = address.port.value_or(port);
    error_code error;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
    if (error || found.empty()) {
      return fail(Code::kInvalidArgument, "cannot listen on host \"{}\": {}", host, error.message());
    }
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    on_loopback_ = endpoint.address().is_loopback();
    host_ = without_zone(host);
    set_browser_rules({});
    if (error) {
      return fail(Code::kIo, "cannot listen on {}:{}: {}; stop what uses that port or choose another with --port",
                  host.find(':') == std::string::npos ? host : fmt::format("[{}]", host), port, error.message());
    }
    return {};
  }

  /// Only this user can connect, so it counts as a loopback address.
  Result<void> bind_unix(const std::string& path) {
    CAIRN_TRY(auto listener, UnixListener::listen(path));
    unix_ = std::make_unique<UnixListener>(std::move(listener));
    acceptor_.assign(AnyStream(AF_UNIX, 0), unix_->release());
    on_loopback_ = true;
    host_ = kUnixHost;
    set_browser_rules({});
    return {};
  }

  Result<void> listen_frames(const std::string& path, const FrameLimits& limits, FrameHandler handler) override {
    CAIRN_CHECK(!frames_);
    CAIRN_TRY(auto listener, UnixListener::listen(path, limits.mode));
    frames_ = std::make_unique<FrameListener>(context_, std::move(listener), limits, std::move(handler),
                                              [this] { stop_if_done(); });
    return {};
  }

  void set_browser_rules(BrowserRules rules) override {
    rules.hosts.push_back(host_);
    const bool checks_host = on_loopback_ && !rules.any_host;
    service_.hosts = HostPolicy(std::move(rules), checks_host);
  }

  void set_body_check(HttpBodyCheck check) override { service_.takes_body = std::move(check); }

  void set_tls(std::shared_ptr<const TlsContext> tls) override {
    asio::post(context_, [this, tls = std::move(tls)]() mutable { service_.tls = std::move(tls); });
  }

  void every(std::chrono::milliseconds interval, std::function<void()> work) override {
    CAIRN_CHECK(!every_);
    every_ = std::move(work);
    interval_ = interval;
    wait_for_interval();
  }

  bool on_loopback() const override { return on_loopback_; }

  uint16_t port() const override {
    error_code ignored;
    const auto endpoint = tcp_endpoint(acceptor_.local_endpoint(ignored));
    return endpoint ? endpoint->port() : 0;
  }

  void run() override {
    asio::co_spawn(context_, accept_loop(), asio::detached);
    if (frames_) frames_->run();
    while (true) {
      try {
        context_.run();
        return;
        // Exceptions that no closer handler has caught: without memory there may be no coroutine to catch them.
      } catch (...) {
        log_exception("the event loop", std::current_exception());
      }
    }
  }

  void stop(std::chrono::milliseconds grace) override {
    asio::post(context_, [this, grace] {
      service_.stopping = true;
      error_code ignored;
      if (unix_) unix_->remove_file();
      acceptor_.close(ignored);
      for (auto& [id, connection] : connections_) connection->stop(false);
      if (frames_) frames_->stop();
      stop_if_done();
      deadline_.expires_after(grace);
      deadline_.async_wait([this](error_code) { context_.stop(); });
    });
  }

  size_t connections() const override { return open_.load(std::memory_order_relaxed); }

 private:
  void wait_for_interval() {
    interval_timer_.expires_after(interval_);
    interval_timer_.async_wait([this](error_code error) {
      if (error) return;
      try {
        every_();
      } catch (...) {
        log_exception("what is done at intervals", std::current_exception());
      }
      wait_for_interval();
    });
  }

  asio::awaitable<void> accept_loop() {
    while (acceptor_.is_open()) {
      try {
        co_await accept_one();
      } catch (...) {
        log_exception("accepting a connection", std::current_exception());
        std::this_thread::sleep_for(kThrownPause);  // a timer would need memory, too
      }
    }
  }

  asio::awaitable<void> accept_one() {
    auto [error, socket] = co_await acceptor_.async_accept(kTuple);
    if (!acceptor_.is_open()) co_return;
    const bool no_descriptor = error == boost::system::errc::too_many_files_open ||
                               error == boost::system::errc::too_many_files_open_in_system;
    if (error && !(no_descriptor && refuse_without_descriptor())) {
      asio::steady_timer pause(context_, kAcceptPause);
      co_await pause.async_wait(kTuple);
    }
    if (error) co_return;
    if (connections_.size() >= service_.limits.connections_max) {
      refuse(socket.native_handle(), "too many connections; try again later");
    } else {
      serve(std::move(socket));
    }
  }

  void serve(AnyStream::socket socket) {
    const uint64_t id = next_id_++;
    std::string remote = remote_text(socket);
    auto connection = std::make_shared<HttpConnection>(std::move(socket), std::move(remote), service_);
    connections_.emplace(id, connection);
    open_.store(connections_.size(), std::memory_order_relaxed);
    if (service_.limits.traffic) ++service_.limits.traffic->accepted;
    try {
      asio::co_spawn(context_, connection->run(), [this, id](const std::exception_ptr& exception) {
        if (exception) log_exception("a connection", exception);
        forget(id);
      });
    } catch (...) {
      forget(id);
      throw;
    }
  }

  void forget(uint64_t id) {
    if (const auto found = connections_.find(id); found != connections_.end()) {
      found->second->stop(true);
      connections_.erase(found);
      if (service_.limits.traffic) ++service_.limits.traffic->closed;
    }
    open_.store(connections_.size(), std::memory_order_relaxed);
    stop_if_done();
  }

  void stop_if_done() {
    if (service_.stopping && connections_.empty() && (!frames_ || frames_->connections() == 0)) context_.stop();
  }

  /// Refuses the client that has waited longest because no descriptors are left; false if there was none to do that
  /// with.
  bool refuse_without_descriptor() {
    const int socket = spare_.accept(acceptor_.native_handle());
    if (socket < 0) {
      spare_.give_back();
      return false;
    }
    refuse(socket, "the server has no file descriptors left for more connections; try again later");
    ::close(socket);
    spare_.give_back();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_complaint_) return true;
    next_complaint_ = now + kComplaintPause;
    log_error(
        "no file descriptors are left: clients are refused (503) with {} connections open; raise the limit "
        "(ulimit -n)",
        connections_.size());
    return true;
  }

  // Refuses a client over the limit with one short write that fits into the socket's buffer. The bytes that it has sent
  // are read before, as closing over unread bytes would reset the connection and lose the answer.
  void refuse(int socket, std::string_view why) {
    if (service_.limits.traffic) ++service_.limits.traffic->refused;
    if (service_.tls != nullptr) return;  // whose answer would take a handshake: the connection is closed
    const std::string body = service_.error_body(503, why);
    const std::string text = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nServer: cairn\r\nConnection: close\r\n{}Retry-After: 1\r\n"
        "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        request_id_lines(make_request_id()), body.size(), body);
    char dropped[kDroppedBytes];
    while (::recv(socket, dropped, sizeof dropped, MSG_DONTWAIT) == sizeof dropped) {
    }
    ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
  }

  HttpService service_;
  asio::io_context context_{1};
  asio::basic_socket_acceptor<AnyStream> acceptor_;
  std::unique_ptr<UnixListener> unix_;  // the file of a Unix socket; null: TCP
  asio::steady_timer deadline_;
  asio::steady_timer interval_timer_;
  std::chrono::milliseconds interval_{};
  std::function<void()> every_;  // empty: nothing
  std::unordered_map<uint64_t, std::shared_ptr<HttpConnection>> connections_;
  std::unique_ptr<FrameListener> frames_;  // null: there is none
  SpareDescriptor spare_;
  std::chrono::steady_clock::time_point next_complaint_{};  // earliest time of the next log line
  std::string host_;                                        // the address on which it listens
  bool on_loopback_ = false;
  uint64_t next_id_ = 0;
  std::atomic<size_t> open_{0};
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::optional<std::string> HttpRequest::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return percent_decode(pair.substr(equals + 1));
    }
  }
  return std::nullopt;
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, uint16_t port, const HttpLimits& limits,
                                                       HttpHandler handler, HttpErrorBody error_body) {
  CAIRN_TRY(const ListenAddress address, parse_listen_address(host));
  auto server = std::make_unique<Server>(limits, std::move(handler), std::move(error_body));
  CAIRN_TRY_VOID(server->bind(address, port));
  return server;
}

}  // namespace cairn::net
