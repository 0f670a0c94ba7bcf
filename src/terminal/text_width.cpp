#include "terminal/text_width.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "base/text/utf8.h"

namespace cairn::terminal {
namespace {

constexpr char32_t kDelete = 0x7f;
constexpr char32_t kFirstC1 = 0x80;
constexpr char32_t kLastC1 = 0x9f;

bool turns_direction(char32_t value) {
  return (value >= 0x202a && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
}

bool is_control(char32_t value) {
  return value < ' ' || (value >= kDelete && value <= kLastC1) || turns_direction(value);
}

std::string name_of_control(char32_t value) {
  if (value < ' ') return {'^', static_cast<char>('@' + value)};
  if (value == kDelete) return "^?";
  if (value >= kFirstC1 && value <= kLastC1) return fmt::format("\\x{:02x}", static_cast<uint32_t>(value));
  return fmt::format("\\u{:04x}", static_cast<uint32_t>(value));
}

}  // namespace

int char_width(char32_t value) { return std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(value))); }

int text_width(std::string_view text) {
  int columns = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = utf8_decode(text, at);
    columns += char_width(next.value);
    at += static_cast<size_t>(next.length);
  }
  return columns;
}

size_t next_cluster(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  utf8proc_int32_t state = 0;
  Utf8Char before = utf8_decode(text, at);
  at += static_cast<size_t>(before.length);
  while (at < text.size()) {
    const Utf8Char next = utf8_decode(text, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      break;
    at += static_cast<size_t>(next.length);
    before = next;
  }
  return at;
}

size_t previous_cluster(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  if (at == 0) return 0;
  // A cluster's beginning follows from the text before it: what is certain is a line's beginning.
  const size_t feed = at >= 2 ? text.rfind('\n', at - 2) : std::string_view::npos;
  size_t begin = feed == std::string_view::npos ? 0 : feed + 1;
  for (size_t next = next_cluster(text, begin); next < at; next = next_cluster(text, next)) begin = next;
  return begin;
}

std::string harmless(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = utf8_decode(text, at);
    if (is_control(next.value) && next.value != '\n' && next.value != '\t') {
      shown += name_of_control(next.value);
    } else {
      shown += text.substr(at, static_cast<size_t>(next.length));
    }
    at += static_cast<size_t>(next.length);
  }
  return shown;
}

}  // namespace cairn::terminal
