/// One connection of TCP or of a Unix socket: requests in, answers out, one after the other. Internal to net/.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/http/content_coding.h"
#include "net/http/host_policy.h"
#include "net/http/http_request_parser.h"
#include "net/http/http_response.h"
#include "net/http/http_server.h"
#include "net/http/tls.h"

namespace cairn::net {

/// State shared by all connections of a server, which outlives them.
struct HttpService {
  HttpLimits limits;
  HttpHandler handler;
  HttpErrorBody error_body;
  HostPolicy hosts = {};
  HttpBodyCheck takes_body = nullptr;               // null: every body is read
  std::shared_ptr<const TlsContext> tls = nullptr;  // of new connections; null: plain HTTP. Server's thread only
  bool stopping = false;                            // server's thread only
};

/// "req_" and 32 hexadecimal digits.
std::string make_request_id();
/// The header lines that give the client the request's id, under both names that clients look for.
std::string request_id_lines(std::string_view id);

/// A buffer of fixed size for received bytes that no request has consumed yet.
class ReadAhead {
 public:
  std::string_view view() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  /// Free space for more bytes, all of it at the end; empty if there is none. Allocates the buffer if needed.
  std::span<char> room();
  void came(size_t count) { end_ += count; }
  void taken(size_t count) { begin_ += count; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t begin_ = 0, end_ = 0;
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  /// `remote` is the client's address, as logs show it.
  HttpConnection(Socket socket, std::string remote, const HttpService& service);
  /// Serves until either side closes. The coroutine keeps the connection alive. Throws only for lack of memory.
  boost::asio::awaitable<void> run();
  /// Closes the socket: at once if `force`, or if no request is being answered; else after the answer in progress.
  void stop(bool force);

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  /// Agrees on keys; false if that failed.
  Awaitable<bool> handshake();
  Awaitable<bool> shake_hands();
  /// What TLS waits for.
  Awaitable<bool> wait_for(TlsSession::State state);
  Awaitable<bool> read_some_tls();
  Awaitable<void> serve_requests();
  /// nullopt if the connection ended or an error was answered.
  Awaitable<std::optional<HttpRequest>> read_request();
  /// Feeds the parser until the request has begun or, with `whole`, ended, or its body is left. False if no more bytes
  /// will come.
  Awaitable<bool> feed(HttpRequestParser& parser, bool whole);
  /// False at the end of the client's input.
  Awaitable<bool> read_some();
  Awaitable<void> answer_error(int status, std::string message);
  /// Handles an exception: sends an error, if nothing was answered yet.
  Awaitable<void> answer_exception(std::exception_ptr thrown);
  /// True if the connection can serve another request.
  Awaitable<bool> exchange(HttpRequest request);
  void call_handler(HttpRequest request, const std::shared_ptr<ResponseState>& response);
  Awaitable<void> watch_for_close(ResponseState& response);
  Awaitable<void> watch_for_break(ResponseState& response);
  Awaitable<void> wait_until_hung_up();
  bool hung_up();
  Awaitable<bool> respond(ResponseState& response);
  Awaitable<bool> respond_whole(const FullResponse& answer);
  Awaitable<bool> respond_compressed(const FullResponse& answer);
  Awaitable<bool> respond_stream(ResponseState& response, PendingResponse work);
  Awaitable<bool> begin_stream(const HeaderList& headers, StreamFormat form);
  /// Compressed, if the answer is.
  Awaitable<bool> write_chunk(std::string_view bytes);
  /// The chunk behind the last one, and what the compression still holds.
  Awaitable<bool> end_chunks();
  Awaitable<bool> write_all(std::string_view bytes);
  Awaitable<bool> wait_writable();
  Awaitable<void> drain();
  std::string head(int status, const HeaderList& headers);

  Socket socket_;
  const HttpService& service_;
  std::unique_ptr<TlsSession> tls_;  // null: plain HTTP
  ReadAhead ahead_;
  std::string remote_;
  std::string request_id_;              // id of the current exchange
  std::string origin_;                  // of the request, if its page may read the answer (CORS)
  bool gzip_ = false;                   // the request takes compressed answers
  std::unique_ptr<GzipWriter> writer_;  // of an answer that is being compressed
  bool keep_alive_ = true;
  bool chunked_ = true;     // false for HTTP/1.0 clients, whose streams end with the connection
  bool head_only_ = false;  // the request was HEAD
  bool body_left_ = false;  // the request's body is not read
  bool in_exchange_ = false;
  bool answer_begun_ = false;
  bool input_ended_ = false;   // the client sends nothing more; it may still read
  std::string_view probe_;     // a literal that may be sent now without changing the answer
  bool answer_whole_ = false;  // whether only the client's reading is waited for
};

}  // namespace cairn::net
