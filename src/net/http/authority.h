/// Names of servers as requests write them: "HOST" or "HOST:PORT" (RFC 3986, section 3.2, without user information).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::net {

struct Authority {
  std::string host;  ///< in lower case; an IPv6 address without its brackets
  std::string port;  ///< digits, or empty
};

/// nullopt if `text` is no authority. An empty host is one: whoever asks may not know a name.
std::optional<Authority> parse_authority(std::string_view text);
/// ASCII letters in lower case, others as they are.
std::string lower_case(std::string_view text);

}  // namespace cairn::net
