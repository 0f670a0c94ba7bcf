#include "api/http/client_request_id.h"

#include <algorithm>

namespace cairn::api {
namespace {

constexpr std::string_view kClientHeader = "x-client-request-id";
constexpr std::string_view kProxyHeader = "x-request-id";

bool fits_a_log(std::string_view id) {
  return id.size() <= kClientRequestIdBytesMax && std::ranges::all_of(id, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

Result<std::string_view> client_request_id(const net::HttpRequest& request) {
  const std::string_view own = request.header(kClientHeader);
  if (!fits_a_log(own)) {
    return fail_at("X-Client-Request-Id", Code::kInvalidArgument,
                   "X-Client-Request-Id must have at most {} characters, all of them printable ASCII",
                   kClientRequestIdBytesMax);
  }
  if (!own.empty()) return own;
  const std::string_view proxy = request.header(kProxyHeader);
  return fits_a_log(proxy) ? proxy : std::string_view{};
}

}  // namespace cairn::api
