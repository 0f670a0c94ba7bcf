#include "api/tenant.h"

#include <algorithm>
#include <string_view>

#include "base/hash.h"

namespace cairn::api {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool has_scheme(std::string_view value) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return value.size() >= kScheme.size() &&
         std::ranges::equal(value.substr(0, kScheme.size()), kScheme, same);  // the scheme has no case
}

}  // namespace

std::string tenant_of(const net::HttpRequest& request) {
  std::string_view token = request.header("authorization");
  if (has_scheme(token)) {
    token.remove_prefix(kScheme.size());
  } else {
    token = request.header("x-api-key");  // Anthropic's clients
  }
  while (token.starts_with(' ')) token.remove_prefix(1);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return token.empty() ? std::string() : fmt::format("{:016x}", hash64(token));
}

}  // namespace cairn::api
