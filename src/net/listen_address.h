/// Where servers listen and are asked, as people write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::net {

struct ListenAddress {
  std::string host{};              ///< a name or an address without brackets; empty for a Unix socket
  std::optional<uint16_t> port{};  ///< if the text names one
  std::string socket{};            ///< path of a Unix socket; empty: TCP
};

/// "HOST", "HOST:PORT", "::1", "fe80::1%eth0", "[::1]", "[::1]:PORT", "unix:/PATH" or "unix:///PATH". Errors:
/// kInvalidArgument.
Result<ListenAddress> parse_listen_address(std::string_view text);

/// The path of "unix:/PATH" or "unix:///PATH"; nullopt if the text does not begin so.
std::optional<std::string> unix_path_of(std::string_view text);

/// The host as URLs have it: IPv6 in brackets, and the '%' before its zone as "%25".
std::string url_host(std::string_view host);

/// An IPv6 address without its zone; other names unchanged.
std::string_view without_zone(std::string_view host);

}  // namespace cairn::net
