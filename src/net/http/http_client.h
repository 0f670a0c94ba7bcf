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

/// "http://host:port/prefix". Errors: kInvalidArgument (no such form), kUnsupported (https).
struct HttpUrl {
  std::string host;
  uint16_t port = 80;
  std::string prefix;  ///< "" or "/some/path", without a last '/'
};
Result<HttpUrl> parse_http_url(std::string_view url);

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  ///< empty if it was given to `on_data`
};

/// Sends and waits for the answer. With `on_data`, the body of a 200 answer is handed over as it comes; returning false
/// from it closes the connection and ends the call. Blocks; errors: kUnavailable (refused, no such host), kIo.
Result<HttpReply> http_request(const HttpUrl& url, std::string_view method, std::string_view path,
                               std::string_view body, const std::vector<std::pair<std::string, std::string>>& headers,
                               const std::function<bool(std::string_view)>& on_data = {},
                               std::chrono::seconds timeout = std::chrono::seconds(600));

/// Splits a byte stream into server-sent events' data fields; comments and other fields are skipped. Lines end with LF
/// or CR LF.
class EventSplitter {
 public:
  /// The data of every event completed by these bytes.
  std::vector<std::string> push(std::string_view bytes);

 private:
  std::string pending_;
};

}  // namespace cairn::net
