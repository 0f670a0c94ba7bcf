/// HTTP/1.1 over TCP: bytes in, bytes out. Knows connections, framing, limits and time-outs; nothing of what they mean.
/// What one connection throws, or makes others throw, ends that connection alone.
/// Framed messages over a Unix socket (frame_server.h) are served beside it, on the same thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system/byte_budget.h"
#include "net/client_output.h"
#include "net/frames/frame_server.h"

namespace cairn::net {

/// Bytes of a request, or of an answer that was not sent, that the budget does not count: small ones always go through.
inline constexpr int64_t kUncountedBytes = 16 << 10;

struct HttpLimits {
  size_t header_bytes_max = 64 << 10;                 ///< with trailers and chunk extensions; over: 431
  size_t body_bytes_max = 32 << 20;                   ///< over: 413
  std::shared_ptr<ByteBudget> budget = {};            ///< for requests and answers that wait; over: 503. Null: no bound
  size_t connections_max = 16'384;                    ///< over: 503 and close
  size_t unsent_bytes_max = 4 << 20;                  ///< of one stream; over: the client is too slow and is dropped
  std::chrono::seconds read_timeout{60};              ///< to send a request once begun
  std::chrono::seconds idle_timeout{300};             ///< between requests of a connection
  std::chrono::seconds write_timeout{120};            ///< without one byte taken by the client
  std::chrono::milliseconds comment_interval{4'000};  ///< an event stream that is silent so long gets a comment
};

struct HttpRequest {
  std::string id;                                            ///< ours, unique; its answer bears it, whatever it is
  std::string method;                                        ///< "POST"
  std::string path;                                          ///< percent-decoded, without the query
  std::string query;                                         ///< after '?', as sent
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;
  std::string remote;                ///< "127.0.0.1:54321"
  std::shared_ptr<ByteShare> share;  ///< what the request holds of HttpLimits::budget; goes when the body does

  /// First header of that lower-case name, or "".
  std::string_view header(std::string_view name) const;
  /// Percent-decoded value of the first NAME=VALUE of the query; nullopt if there is none or it is ill-formed.
  std::optional<std::string> query_value(std::string_view name) const;
};

/// What a stream is, and what it says while it has nothing to say.
struct StreamFormat {
  std::string_view content_type = "text/event-stream";  ///< this and keep_alive: literals
  std::string_view keep_alive = ": keep-alive\n\n";     ///< empty: nothing
};

/// One answer; 500 leaves a line in the log (failure_log.h). Thread-safe: any call may come from any thread, none
/// blocks. Calls after the end or after the client has gone do nothing. Dropping the last reference without an answer
/// sends 500. All are dropped before the server is destroyed. What a callback throws ends its exchange, with 500 (503
/// without memory) where nothing was answered yet.
class HttpResponse : public ClientOutput {
 public:
  /// HttpRequest::id; empty of what answers no request of a connection.
  virtual std::string_view request_id() const { return {}; }
  /// The whole answer at once.
  virtual void send(int status, std::string_view content_type, std::string body,
                    std::vector<std::pair<std::string, std::string>> headers = {}) = 0;
  /// Begins a stream: status 200 and headers go out at once.
  virtual void begin_events(std::vector<std::pair<std::string, std::string>> headers = {}, StreamFormat form = {}) = 0;
  /// Appends bytes, a whole number of events. May be sent together with what follows.
  virtual void write(std::string_view bytes) = 0;
  /// Ends the stream; the connection may be used again.
  virtual void end() = 0;
  /// Called once, on the server's thread, when the exchange is over: the answer is out, or the client has gone away, or
  /// the server stops. At once if it already is.
  virtual void on_close(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;
};

/// Called on the server's thread for each whole request; must neither block nor compute. Requests of a connection come
/// one at a time, in order, each after the answer before it ended.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpResponse> response)>;
/// Writes the body of an error that net/ itself must answer (400, 403, 408, 413, 431, 500, 501, 503, 505). Thread-safe.
using HttpErrorBody = std::function<std::string(int status, std::string_view message)>;

class HttpServer {
 public:
  /// Binds and listens; port 0 picks one. Errors: kInvalidArgument (address), kIo (in use, no permission), with both.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, uint16_t port, const HttpLimits& limits,
                                                    HttpHandler handler, HttpErrorBody error_body);
  virtual ~HttpServer() = default;
  /// Serves framed messages at a socket file too. Before run, once. Errors: UnixListener::listen's.
  virtual Result<void> listen_frames(const std::string& path, const FrameLimits& limits, FrameHandler handler) = 0;
  /// On a loopback address only requests for that address, `host` of listen and these names are let in, and none of a
  /// web page of elsewhere: others get 403 (host_policy.h). Before run.
  virtual void allow_hosts(std::vector<std::string> names) = 0;
  /// Whether only this machine can reach the server.
  virtual bool on_loopback() const = 0;
  virtual uint16_t port() const = 0;
  /// Serves on the calling thread until stop().
  virtual void run() = 0;
  /// Thread-safe and async-signal-unsafe. Stops accepting, lets answers in progress end for up to `grace`, then returns
  /// from run().
  virtual void stop(std::chrono::milliseconds grace) = 0;
  virtual size_t connections() const = 0;
};

}  // namespace cairn::net
