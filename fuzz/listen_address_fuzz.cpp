// Fuzzes addresses to listen on (`--host`): any text gives an error with words, or a host that is no URL and has no
// brackets, or the path of a Unix socket. An address that is written again is read as the same.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text/utf8.h"
#include "net/listen_address.h"
#include "net/unix_socket.h"

using namespace cairn;  // NOLINT: one small program

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool same(const net::ListenAddress& a, const net::ListenAddress& b) {
  return a.host == b.host && a.port == b.port && a.socket == b.socket;
}

void check(const net::ListenAddress& address) {
  if (!address.socket.empty()) {
    require(address.host.empty() && !address.port && net::check_socket_path(address.socket));
    const auto again = net::parse_listen_address("unix:" + address.socket);
    // "unix:" takes two slashes away, as of a URL.
    require(address.socket.starts_with("//") || (again && same(*again, address)));
    return;
  }
  const std::string& host = address.host;
  const bool numeric = host.find(':') != std::string::npos;
  require(!host.empty() && host.find_first_of("[] \t\r\n") == std::string::npos);
  require(net::url_host(host).starts_with('[') == numeric);
  require(host.starts_with(net::without_zone(host)) && !net::without_zone(host).empty());
  const std::string written = numeric ? fmt::format("[{}]", host) : host;
  const auto again = net::parse_listen_address(address.port ? fmt::format("{}:{}", written, *address.port) : written);
  require(again && same(*again, address));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMessageBytesMax = 2'000;  // two texts of kEchoBytesMax, of which every byte is escaped
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = net::parse_listen_address(text);
  if (address) {
    check(*address);
  } else {
    const std::string& message = address.error().message;
    require(!message.empty() && message.size() <= kMessageBytesMax && utf8_valid(message));
    require(message.find_first_of(std::string_view("\x1b\n\0", 3)) == std::string::npos);
  }
  return 0;
}
