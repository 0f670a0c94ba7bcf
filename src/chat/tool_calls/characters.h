/// Classes of bytes in models' output, independent of the locale.
#pragma once

#include <string>
#include <string_view>

namespace cairn::chat::tool_call {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
/// Bytes of functions' names and of unquoted keys, including letters beyond ASCII.
constexpr bool is_name_byte(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || static_cast<unsigned char>(c) >= 0x80;
}

/// Bytes of the names that are taken for functions' where no tool has such a name.
constexpr bool is_call_name_byte(char c) { return is_name_byte(c) || c == ':' || c == '/'; }

/// Whether `escape`, a \u with four digits, is the first half of a surrogate pair (D800 to DBFF); the other function
/// checks for the second.
constexpr bool is_high_surrogate(std::string_view escape) {
  return (escape[2] | 0x20) == 'd' && std::string_view("89abAB").find(escape[3]) != std::string_view::npos;
}
constexpr bool is_low_surrogate(std::string_view escape) {
  return (escape[2] | 0x20) == 'd' && std::string_view("cdefCDEF").find(escape[3]) != std::string_view::npos;
}

constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace cairn::chat::tool_call
