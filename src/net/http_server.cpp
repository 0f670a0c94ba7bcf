#include "net/http_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "net/frame_listener.h"
#include "net/http_connection.h"
#include "net/percent.h"

namespace cairn::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

/// When the system has no descriptors left, accepting rests this long rather than spinning.
constexpr std::chrono::milliseconds kAcceptPause{100};

class Server final : public HttpServer {
 public:
  Server(const HttpLimits& limits, HttpHandler handler, HttpErrorBody error_body)
      : service_{limits, std::move(handler), std::move(error_body)}, acceptor_(context_), deadline_(context_) {}

  // Coroutine frames hold connections, and connections refer to service_: they go first.
  ~Server() override {
    for (auto& [id, connection] : connections_) connection->stop(true);
    connections_.clear();
  }

  Result<void> bind(const std::string& host, uint16_t port) {
    error_code error;
    tcp::resolver resolver(context_);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
    if (error || found.empty()) {
      return fail(Code::kInvalidArgument, "cannot listen on host \"{}\": {}", host, error.message());
    }
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return fail(Code::kIo, "cannot listen on {}:{}: {}; stop what uses that port or choose another with --port", host,
                  port, error.message());
    }
    return {};
  }

  Result<void> listen_frames(const std::string& path, const FrameLimits& limits, FrameHandler handler) override {
    CAIRN_CHECK(!frames_);
    CAIRN_TRY(auto listener, UnixListener::listen(path));
    frames_ = std::make_unique<FrameListener>(context_, std::move(listener), limits, std::move(handler),
                                              [this] { stop_if_done(); });
    return {};
  }

  uint16_t port() const override {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

  void run() override {
    asio::co_spawn(context_, accept_loop(), asio::detached);
    if (frames_) frames_->run();
    context_.run();
  }

  void stop(std::chrono::milliseconds grace) override {
    asio::post(context_, [this, grace] {
      service_.stopping = true;
      error_code ignored;
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
  asio::awaitable<void> accept_loop() {
    while (acceptor_.is_open()) {
      auto [error, socket] = co_await acceptor_.async_accept(kTuple);
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
      if (error) {
        asio::steady_timer pause(context_, kAcceptPause);
        co_await pause.async_wait(kTuple);
        continue;
      }
      if (connections_.size() >= service_.limits.connections_max) {
        refuse(std::move(socket));
        continue;
      }
      serve(std::move(socket));
    }
  }

  void serve(tcp::socket socket) {
    const uint64_t id = next_id_++;
    auto connection = std::make_shared<HttpConnection>(std::move(socket), service_);
    connections_.emplace(id, connection);
    open_.store(connections_.size(), std::memory_order_relaxed);
    asio::co_spawn(context_, connection->run(), [this, id](const std::exception_ptr& exception) {
      if (exception) log_failure(exception);
      if (const auto found = connections_.find(id); found != connections_.end()) {
        found->second->stop(true);
        connections_.erase(found);
      }
      open_.store(connections_.size(), std::memory_order_relaxed);
      stop_if_done();
    });
  }

  void stop_if_done() {
    if (service_.stopping && connections_.empty() && (!frames_ || frames_->connections() == 0)) context_.stop();
  }

  static void log_failure(const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      log_error("a connection failed: {}", error.what());
    }
  }

  // One short write that the socket's buffer takes at once; a client over the limit is owed no more.
  void refuse(tcp::socket socket) {
    const std::string body = service_.error_body(503, "too many connections");
    const std::string text = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nServer: cairn\r\nConnection: close\r\n{}Retry-After: 1\r\n"
        "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        request_id_lines(make_request_id()), body.size(), body);
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  HttpService service_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer deadline_;
  std::unordered_map<uint64_t, std::shared_ptr<HttpConnection>> connections_;
  std::unique_ptr<FrameListener> frames_;  // null: none
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
  auto server = std::make_unique<Server>(limits, std::move(handler), std::move(error_body));
  CAIRN_TRY_VOID(server->bind(host, port));
  return server;
}

}  // namespace cairn::net
