#include "api/access/credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

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

}  // namespace

std::array<std::string_view, 3> presented_keys(const net::HttpRequest& request) {
  std::string_view bearer = request.header("authorization");
  bearer = has_scheme(bearer) ? bearer.substr(kScheme.size()) : std::string_view();
  return {trimmed(bearer), trimmed(request.header("x-api-key")), trimmed(request.header("api-key"))};
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

}  // namespace cairn::api
