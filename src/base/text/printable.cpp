#include "base/text/printable.h"

#include <fmt/format.h>

#include <iterator>

#include "base/text/utf8.h"

namespace cairn {
namespace {

constexpr std::string_view kCutMark = "...";

// Whether the character is a control character (C0, C1, DEL), a line or paragraph separator, or a mark, embedding,
// override or isolate of the writing direction (Unicode Standard Annex 9, table 1).
bool controls(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out;
  size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Char character = utf8_decode(text, offset);
    const auto length = static_cast<size_t>(character.length);
    if (offset + length > bytes_max) return out.append(kCutMark);
    if (character.well_formed && !controls(character.value)) {
      out.append(text.substr(offset, length));
    } else if (text[offset] == '\n') {
      out += "\\n";
    } else if (text[offset] == '\t') {
      out += "\\t";
    } else {
      for (const char byte : text.substr(offset, length)) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    offset += length;
  }
  return out;
}

std::string cut_text(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; };
  size_t end = bytes_max < kCutMark.size() ? 0 : bytes_max - kCutMark.size();
  while (end > 0 && continues(text[end])) --end;
  return std::string(text.substr(0, end)).append(kCutMark);
}

}  // namespace cairn
