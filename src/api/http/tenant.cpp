#include "api/http/tenant.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>
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
  request.client = client_of(http);
  request.tenant = tenant_of(http);
}

void set_tenant(const net::HttpRequest& http, GenerateRequest& request) {
  name_owner(http, request);
  if (!request.tenant.empty()) request.salt = hash64(request.tenant, request.salt) | 1;
}

Party party_of(const net::HttpRequest& request) { return cairn::party_of(client_of(request), tenant_of(request)); }

}  // namespace cairn::api
