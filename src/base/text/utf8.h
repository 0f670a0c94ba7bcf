/// UTF-8 as the Unicode standard defines it (no surrogates, nothing above U+10FFFF, shortest forms only).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

/// Offset of the first byte that is not part of well-formed UTF-8, or text.size().
size_t utf8_valid_prefix(std::string_view text);
inline bool utf8_valid(std::string_view text) { return utf8_valid_prefix(text) == text.size(); }

/// A character and its number of bytes. `length` is 0 at the end of text; an ill-formed byte gives {0xFFFD, 1, false}.
struct Utf8Char {
  char32_t value = 0;
  int length = 0;
  bool well_formed = true;
};
Utf8Char utf8_decode(std::string_view text, size_t offset);

/// Appends the character. Surrogates and values above U+10FFFF become U+FFFD.
void utf8_append(std::string& out, char32_t value);

/// How many trailing bytes could still become a character when more arrive (0 to 3), which a stream must hold back.
size_t utf8_incomplete_suffix(std::string_view text);

/// The text with every maximal ill-formed part replaced by one U+FFFD.
std::string utf8_replace_invalid(std::string_view text);

}  // namespace cairn
