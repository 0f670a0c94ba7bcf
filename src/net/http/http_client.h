/// A small HTTP/1.1 client for `cairn chat --url` and tests: one request at a time, plain TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace cairn::net {

/// "http://host:port/prefix". Errors: kInvalidArgument (another form), kUnsupported (https).
struct HttpUrl {
  std::string host;
  uint16_t port = 80;
  std::string prefix;  ///< "" or "/some/path", without a last '/'
};
Result<HttpUrl> parse_http_url(std::string_view url);

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  ///< empty if it was passed to `on_data`
};

/// Sends a request and waits for the answer. With `on_data`, the body of a 200 answer is passed to it as it comes; if
/// it returns false, the connection is closed and the call ends. Blocks. Errors: kUnavailable (refused, no such host),
/// kIo.
Result<HttpReply> http_request(const HttpUrl& url, std::string_view method, std::string_view path,
                               std::string_view body, const std::vector<std::pair<std::string, std::string>>& headers,
                               const std::function<bool(std::string_view)>& on_data = {},
                               std::chrono::seconds timeout = std::chrono::seconds(600));

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
