/// An HTTP/1.1 client over libcurl, for hubs, `cairn chat --url`, `cairn bench serve` and `--otlp`.
///
/// Like curl, it takes proxies (http_proxy, HTTPS_PROXY, ALL_PROXY, NO_PROXY) and certificates (CURL_CA_BUNDLE,
/// SSL_CERT_FILE, SSL_CERT_DIR; else the system's) from the environment. This machine itself is never asked by proxy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace cairn::net {

inline constexpr int kRedirectsMax = 10;
inline constexpr std::chrono::seconds kConnectTimeout{20};
inline constexpr size_t kReplyBytesMax = 1 << 30;       ///< of the answer to HttpClient::request
inline constexpr size_t kErrorBodyBytesMax = 64 << 10;  ///< of the body of an error; the rest is passed over

/// How the message begins of a server that is not there.
inline constexpr std::string_view kCannotConnect = "cannot connect to ";

/// "http://HOST:PORT/PREFIX" or the same with https, without slashes at its end. Errors: kInvalidArgument.
Result<std::string> check_http_url(std::string_view url);
/// A server as people name it: a URL of check_http_url, or "unix:/PATH" of a Unix socket.
struct ServerAddress {
  std::string url{};     ///< of a Unix socket, with the host "localhost"
  std::string socket{};  ///< its path; empty: TCP
};
/// Errors: kInvalidArgument.
Result<ServerAddress> parse_server_address(std::string_view text);
/// A URL as messages show it: without its query and its user, which may be secrets.
std::string shown_url(std::string_view url);

/// What is asked for.
struct HttpCall {
  std::string url{};
  std::optional<std::string> body{};  ///< makes it a POST, which follows no redirect; without one it is a GET
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string token{};                           ///< for the URL's own host, scheme and port alone; empty: none
  std::string socket{};                          ///< path of the Unix socket to ask there; empty: TCP
  const std::atomic<bool>* cancelled = nullptr;  ///< ends HttpClient::run when it becomes true; null: nothing does
  std::chrono::seconds stall{600};               ///< without a byte for so long, the transfer fails
};

/// The last answer of a transfer, after redirects.
struct HttpHead {
  int status = 0;
  std::string url{};                             ///< that was asked in the end
  std::map<std::string, std::string> headers{};  ///< names in lower case

  bool success() const { return status >= 200 && status < 300; }
  std::string_view header(const std::string& name) const;
};

struct HttpReply : HttpHead {
  std::string body{};
};

/// Why there is no answer (kUnavailable), or none that can be used.
struct HttpFailure {
  Error error;
  bool may_pass = false;                  ///< whether another attempt may succeed
  std::chrono::seconds retry_after = {};  ///< before which the server wants no other
};

/// One request. The body of a success goes to `sink`, of which false ends the transfer. One thread at a time.
class HttpTransfer {
 public:
  using Sink = std::function<bool(const HttpHead& head, std::string_view bytes)>;
  HttpTransfer(HttpCall call, Sink sink);
  ~HttpTransfer();
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  const HttpCall& call() const;
  const HttpHead& head() const;
  /// The body of an answer that is no success.
  const std::string& error_body() const;
  /// After it has ended: nullopt for a whole answer, whatever its status.
  std::optional<HttpFailure> failure() const;

 private:
  friend class HttpClient;
  struct State;
  std::unique_ptr<State> state_;
};

/// The transfers of one thread. It reads the certificates once, and keeps connections for the next transfer. The
/// process ignores SIGPIPE, as OpenSSL writes to sockets that may be closed.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Begins a transfer, which is destroyed before the client. Errors: kUnavailable (no libcurl), kOutOfMemory.
  Result<void> start(HttpTransfer& transfer);
  /// Waits until something has happened, `wait_max` at most, and goes on with what was started. Returns the transfers
  /// that have ended. Errors: kUnavailable.
  Result<std::vector<HttpTransfer*>> advance(std::chrono::milliseconds wait_max);
  /// Starts the transfer, while there is no other, and waits for its end. Errors: those of start; kCancelled.
  Result<void> run(HttpTransfer& transfer);
  /// Asks and waits for the answer. With `on_data`, the body of a success goes there as it comes, else to the reply.
  /// Errors: those of run and of HttpFailure; kTooLarge.
  Result<HttpReply> request(HttpCall call, const std::function<void(std::string_view)>& on_data = {});

 private:
  void* const multi_;  // libcurl's handle; null without memory
};

/// Splits a byte stream into server-sent events' data fields; comments and other fields are skipped. Lines end with LF
/// or CR LF.
class EventSplitter {
 public:
  /// Returns the data of every event that these bytes complete.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string pending_;
};

}  // namespace cairn::net
