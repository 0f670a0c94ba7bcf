#include "api/http/tenant.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "api/access/principal.h"
#include "base/hash.h"

namespace cairn::api {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool has_scheme(std::string_view value) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  return value.size() >= kScheme.size() &&
         std::ranges::equal(value.substr(0, kScheme.size()), kScheme, same);  // the scheme has no case
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Who shares fairly with others.
std::string sharer_of(const net::HttpRequest& request) {
  const std::string& name = principal_of(request).name();
  return name.empty() ? client_of(request) : "key " + name;
}

}  // namespace

std::array<std::string_view, 3> presented_keys(const net::HttpRequest& request) {
  std::string_view bearer = request.header("authorization");
  bearer = has_scheme(bearer) ? bearer.substr(kScheme.size()) : std::string_view();
  return {trimmed(bearer), trimmed(request.header("x-api-key")), trimmed(request.header("api-key"))};
}

std::string tenant_of(const net::HttpRequest& request) {
  if (const std::string& name = principal_of(request).name(); !name.empty()) return name;
  const auto keys = presented_keys(request);
  const auto* first = std::ranges::find_if(keys, [](std::string_view key) { return !key.empty(); });
  return first == keys.end() ? std::string() : fmt::format("{:016x}", hash64(*first));
}

std::string client_of(const net::HttpRequest& request) {
  constexpr size_t kNetworkBytes = 8;
  std::string address = request.remote.substr(0, request.remote.rfind(':'));
  std::erase_if(address, [](char c) { return c == '[' || c == ']'; });  // around IPv6
  in6_addr v6{};
  if (inet_pton(AF_INET6, address.c_str(), &v6) != 1 || IN6_IS_ADDR_V4MAPPED(&v6)) return address;
  std::fill(std::begin(v6.s6_addr) + kNetworkBytes, std::end(v6.s6_addr), uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, &v6, text, sizeof text) == nullptr ? address : text;
}

void name_owner(const net::HttpRequest& http, GenerateRequest& request) {
  const Principal& principal = principal_of(http);
  request.client = sharer_of(http);
  request.tenant = tenant_of(http);
  request.usage_listener = principal.meter();
  if (principal.only_batch()) request.priority = Priority::kBatch;
  if (principal.no_disk()) request.keep_on_disk = false;
}

void set_tenant(const net::HttpRequest& http, GenerateRequest& request) {
  name_owner(http, request);
  if (!request.tenant.empty()) request.salt = hash64(request.tenant, request.salt) | 1;
}

Party party_of(const net::HttpRequest& request) { return cairn::party_of(sharer_of(request), tenant_of(request)); }

}  // namespace cairn::api
