/// Percent-encoding of URLs (RFC 3986, section 2.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::net {

/// Encodes all but letters, digits and "-._~".
std::string percent_encode(std::string_view text);
/// Decodes a text; nullopt if a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

}  // namespace cairn::net
