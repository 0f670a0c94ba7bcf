/// One TCP connection: requests in, answers out, one after the other. Internal to net/.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_response.h"
#include "net/http_server.h"

namespace cairn::net {

/// What every connection of a server shares; outlives them.
struct HttpService {
  HttpLimits limits;
  HttpHandler handler;
  HttpErrorBody error_body;
  bool stopping = false;  // server's thread only
};

/// "req_" and 32 hexadecimal digits.
std::string make_request_id();
/// The header lines that tell the client, under both names that clients look for.
std::string request_id_lines(std::string_view id);

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, const HttpService& service);
  /// Serves until either side closes. The coroutine keeps the connection alive.
  boost::asio::awaitable<void> run();
  /// Closes the socket, at once if idle, else (not `force`) after the answer in progress.
  void stop(bool force);

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  Awaitable<bool> wait_for_request();
  /// nullopt after the connection failed or an error was answered.
  Awaitable<std::optional<HttpRequest>> read_request();
  Awaitable<void> answer_error(int status, const std::string& message);
  /// True if the connection can serve another request.
  Awaitable<bool> exchange(HttpRequest request);
  Awaitable<void> watch_for_close(ResponseState& response);
  Awaitable<void> watch_for_overflow(ResponseState& response);
  Awaitable<bool> respond(ResponseState& response);
  Awaitable<bool> respond_whole(const WholeAnswer& answer);
  Awaitable<bool> begin_stream(const HeaderList& headers, StreamForm form);
  Awaitable<bool> write_chunk(std::string_view bytes);
  Awaitable<bool> write_all(std::string_view bytes);
  Awaitable<void> drain();
  std::string head(int status, const HeaderList& headers) const;

  boost::asio::ip::tcp::socket socket_;
  const HttpService& service_;
  boost::beast::flat_buffer buffer_;
  std::string remote_;
  std::string request_id_;  // of the exchange
  bool keep_alive_ = true;
  bool chunked_ = true;     // HTTP/1.0 clients get their streams until close instead
  bool head_only_ = false;  // the request was HEAD
  bool in_exchange_ = false;
};

}  // namespace cairn::net
