#include "net/listen_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "base/text/printable.h"
#include "net/unix_socket.h"

namespace cairn::net {
namespace {

constexpr std::string_view kUnixScheme = "unix:";

bool is_ipv6(std::string_view text) {
  if (text.find_first_of("[]") != std::string_view::npos) return false;  // in its zone
  const std::string address(without_zone(text));
  in6_addr parsed{};
  return address.size() + 1 != text.size() && ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

Result<uint16_t> read_port(std::string_view digits, std::string_view text) {
  uint16_t port = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error == std::errc() && rest == digits.data() + digits.size()) return port;
  return fail(Code::kInvalidArgument, "{}: \"{}\" is no port from 0 to 65535", printable(text, kEchoBytesMax),
              printable(digits, kEchoBytesMax));
}

}  // namespace

std::optional<std::string> unix_path_of(std::string_view text) {
  if (!text.starts_with(kUnixScheme)) return std::nullopt;
  text.remove_prefix(kUnixScheme.size());
  if (text.starts_with("//")) text.remove_prefix(2);
  return std::string(text);
}

std::string_view without_zone(std::string_view host) {
  const bool numeric = host.find(':') != std::string_view::npos;
  return numeric ? host.substr(0, host.find('%')) : host;
}

std::string url_host(std::string_view host) {
  if (host.find(':') == std::string_view::npos) return std::string(host);
  const std::string_view address = without_zone(host);
  if (address.size() == host.size()) return fmt::format("[{}]", host);
  return fmt::format("[{}%25{}]", address, host.substr(address.size() + 1));
}

Result<ListenAddress> parse_listen_address(std::string_view text) {
  const std::string shown = printable(text, kEchoBytesMax);
  if (text.empty()) return fail(Code::kInvalidArgument, "is empty");
  if (const auto path = unix_path_of(text)) {
    CAIRN_TRY_VOID(check_socket_path(*path));
    return ListenAddress{.socket = *path};
  }
  if (text.find("://") != std::string_view::npos)
    return fail(Code::kInvalidArgument, "{} is a URL; an address to listen on is HOST, HOST:PORT or unix:/PATH", shown);
  const auto is_blank = [](unsigned char c) { return c <= ' '; };
  if (std::ranges::any_of(text, is_blank))
    return fail(Code::kInvalidArgument, "{} has a blank in it, as no address has", shown);
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    const std::string_view host = end == std::string_view::npos ? text : text.substr(1, end - 1);
    const std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!is_ipv6(host) || !(rest.empty() || rest.starts_with(':')))
      return fail(Code::kInvalidArgument, "{} is no IPv6 address in brackets, such as [::1] or [::1]:8080", shown);
    ListenAddress address{.host = std::string(host)};
    if (!rest.empty()) {
      CAIRN_TRY(address.port, read_port(rest.substr(1), text));
    }
    return address;
  }
  if (text.find_first_of("[]") != std::string_view::npos)
    return fail(Code::kInvalidArgument, "{} has a bracket; brackets are for IPv6 addresses, such as [::1]:8080", shown);
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return ListenAddress{.host = std::string(text)};
  if (text.find(':', colon + 1) != std::string_view::npos) {
    if (!is_ipv6(text)) return fail(Code::kInvalidArgument, "{} is no IPv6 address", shown);
    return ListenAddress{.host = std::string(text)};
  }
  if (colon == 0)
    return fail(Code::kInvalidArgument, "{} names no host; 0.0.0.0{} listens on every network", shown, shown);
  CAIRN_TRY(const uint16_t port, read_port(text.substr(colon + 1), text));
  return ListenAddress{.host = std::string(text.substr(0, colon)), .port = port};
}

}  // namespace cairn::net
