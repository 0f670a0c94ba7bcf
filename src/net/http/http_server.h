/// HTTP/1.1 over TCP or a Unix socket. It handles connections, framing, limits and time-outs, but not the meaning of
/// requests. An exception that one connection causes ends that connection alone. Framed messages over a Unix socket
/// (frame_server.h) are served beside it, on the same thread.
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
#include "net/traffic.h"

namespace cairn::net {

/// Bytes of a request, or of an unsent answer, that do not count against the budget, so that small ones always pass.
inline constexpr int64_t kUncountedBytes = 16 << 10;

/// Which answers are compressed for clients that take gzip.
enum class Compression {
  kNone,
  kWhole,  ///< large ones that are not streams
  kAll,    ///< streams too, each event by itself
};

struct HttpLimits {
  size_t header_bytes_max = 64 << 10;       ///< including trailers and chunk extensions; over it: 431
  size_t body_bytes_max = 32 << 20;         ///< over it: 413
  std::shared_ptr<ByteBudget> budget = {};  ///< for requests and answers in memory; over it: 503. Null: unlimited
  std::shared_ptr<Traffic> traffic = {};    ///< counts here; null: nowhere
  Compression compression = Compression::kWhole;
  size_t connections_max = 16'384;                    ///< over it: 503, and the connection is closed
  size_t unsent_bytes_max = 4 << 20;                  ///< per stream; a client that leaves more unread is dropped
  std::chrono::seconds read_timeout{60};              ///< time for sending a request, once begun
  std::chrono::seconds idle_timeout{300};             ///< time between requests of a connection
  std::chrono::seconds write_timeout{120};            ///< maximum time in which the client reads no byte
  std::chrono::milliseconds comment_interval{4'000};  ///< an event stream that is silent for this long gets a comment
};

/// What the handler of a server attaches to a request: who it lets in.
class RequestOwner {
 public:
  virtual ~RequestOwner() = default;
};

struct HttpRequest {
  std::string id;                                            ///< made here, unique; every answer has it as a header
  std::string method;                                        ///< "POST"
  std::string path;                                          ///< percent-decoded, without the query
  std::string query;                                         ///< after '?', as sent
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;
  std::string remote;                         ///< "127.0.0.1:54321"
  std::shared_ptr<void> context;              ///< what the handler keeps with it
  std::shared_ptr<ByteShare> share;           ///< the request's share of HttpLimits::budget, returned with its body
  std::shared_ptr<const RequestOwner> owner;  ///< null as it comes from the connection

  /// Value of the first header of that lower-case name, or "".
  std::string_view header(std::string_view name) const;
  /// Percent-decoded value of the first NAME=VALUE of the query; nullopt if there is none or it is ill-formed.
  std::optional<std::string> query_value(std::string_view name) const;
};

/// Which names and web pages a server lets in besides those of this machine (host_policy.h).
struct BrowserRules {
  std::vector<std::string> hosts{};  ///< names under which it may be asked for, and whose pages may ask
  /// Origins of pages that may ask, in which '*' stands for anything: "https://chat.example", "https://*.example".
  std::vector<std::string> origins{};
  bool any_host = false;  ///< the name is not checked: who asks shows by other means that they may
};

/// What a stream is, and what it says while it has nothing to say.
struct StreamFormat {
  std::string_view content_type = "text/event-stream";  ///< this and keep_alive: literals
  std::string_view keep_alive = ": keep-alive\n\n";     ///< empty: nothing is sent
};

/// What an exchange has come to.
struct ExchangeState {
  int status = 0;          ///< that was answered; 0: none yet
  bool delivered = false;  ///< whether the system took the answer's last byte
};

/// One answer; 500 leaves a line in the log (failure_log.h). Thread-safe: any call may come from any thread, none
/// blocks. Calls after the end or after the client has gone do nothing. Dropping the last reference without an answer
/// sends 500. All are dropped before the server is destroyed. What a callback throws ends its exchange, with 500 (503
/// without memory) where nothing was answered yet.
class HttpResponse : public ClientOutput {
 public:
  /// HttpRequest::id; empty of what answers no request of a connection.
  virtual std::string_view request_id() const { return {}; }
  /// Sends a complete answer. One with a Content-Encoding among its headers is sent as it is.
  virtual void send(int status, std::string_view content_type, std::string body,
                    std::vector<std::pair<std::string, std::string>> headers = {}) = 0;
  /// Begins a stream: status 200 and headers go out at once.
  virtual void begin_events(std::vector<std::pair<std::string, std::string>> headers = {}, StreamFormat form = {}) = 0;
  /// Appends bytes, a whole number of events. May be sent together with what follows.
  virtual void write(std::string_view bytes) = 0;
  /// Ends the stream; the connection can be used again.
  virtual void end() = 0;
  /// Calls `callback` once, on the server's thread, when the exchange is over: the answer is sent, the client has gone
  /// away, or the server stops. At once if it is over already.
  virtual void on_close(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;
  /// Calls `callback` once, on the server's thread, behind that of on_close. Set before the handler returns.
  virtual void on_end(std::function<void(const ExchangeState&)> /*callback*/) {}
};

/// Called on the server's thread for each complete request; must neither block nor compute. Requests of a connection
/// come one at a time, in order, each after the previous answer has ended.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpResponse> response)>;
/// Whether the body of a request is read whose head has come, and whose body has not. If not, the handler, which is
/// going to refuse it, gets the request without a body, and the connection ends with its answer. Called on the server's
/// thread.
using HttpBodyCheck = std::function<bool(const HttpRequest& head)>;
/// Writes the body of an error that net/ itself answers (400, 403, 408, 413, 431, 500, 501, 503, 505). Thread-safe.
using HttpErrorBody = std::function<std::string(int status, std::string_view message)>;

class TlsContext;

class HttpServer {
 public:
  /// Binds and listens at an address of listen_address.h, whose own port comes before `port`; port 0 picks one. A Unix
  /// socket has no port, and counts as a loopback address. Errors: kInvalidArgument (address), kIo (in use, no
  /// permission), with both; those of UnixListener::listen.
  static Result<std::unique_ptr<HttpServer>> listen(const std::string& host, uint16_t port, const HttpLimits& limits,
                                                    HttpHandler handler, HttpErrorBody error_body);
  virtual ~HttpServer() = default;
  /// Also serves framed messages at a socket file. Called once, before run. Errors: those of UnixListener::listen.
  virtual Result<void> listen_frames(const std::string& path, const FrameLimits& limits, FrameHandler handler) = 0;
  /// Requests of other web pages get 403, and on a loopback address also those for another name than this machine's,
  /// `host` of listen and rules.hosts. Called before run.
  virtual void set_browser_rules(BrowserRules rules) = 0;
  /// Called before run.
  virtual void set_body_check(HttpBodyCheck check) = 0;
  /// Connections from now on speak TLS, with this certificate (tls.h); those that are open go on as they are. Any
  /// thread, also while it runs.
  virtual void set_tls(std::shared_ptr<const TlsContext> tls) = 0;
  /// Whether only this machine can reach the server.
  virtual bool on_loopback() const = 0;
  virtual uint16_t port() const = 0;
  /// Calls `work` on the server's thread each `interval`, about, until run() returns. Called once, before run.
  virtual void every(std::chrono::milliseconds interval, std::function<void()> work) = 0;
  /// Serves on the calling thread until stop().
  virtual void run() = 0;
  /// Stops accepting, lets answers in progress end for up to `grace`, then makes run() return. Thread-safe, but not
  /// async-signal-safe.
  virtual void stop(std::chrono::milliseconds grace) = 0;
  virtual size_t connections() const = 0;
};

}  // namespace cairn::net
