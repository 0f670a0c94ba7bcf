/// Server names as requests write them: "HOST" or "HOST:PORT" (RFC 3986, section 3.2, without user information); and
/// what texts of header lines need.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::net {

struct Authority {
  std::string host;  ///< in lower case; an IPv6 address without its brackets and its zone
  std::string port;  ///< digits, or empty
};

/// nullopt if `text` is not an authority. An empty host is valid.
std::optional<Authority> parse_authority(std::string_view text);
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// The text without spaces and tabs around it.
std::string_view trimmed(std::string_view text);
/// The text with ASCII letters in lower case; other characters are unchanged.
std::string lower_case(std::string_view text);

}  // namespace cairn::net
