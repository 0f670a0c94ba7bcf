#include "grammar/readers/text_cursor.h"

#include <fmt/format.h>

#include "grammar/readers/regex_reader.h"

namespace cairn::grammar {

Result<uint32_t> take_count(TextCursor& cursor) {
  const size_t begin = cursor.offset();
  const std::string_view digits = cursor.take_while(is_ascii_digit);
  if (digits.empty()) return cursor.error(begin, "a number is missing");
  uint64_t value = 0;
  for (const char digit : digits) {
    value = value * 10 + static_cast<uint64_t>(digit - '0');
    if (value > kRegexCountMax)
      return cursor.error(begin, fmt::format("a count of repetitions is above {}", kRegexCountMax), Code::kTooLarge);
  }
  return static_cast<uint32_t>(value);
}

Result<char32_t> take_hex_character(TextCursor& cursor, size_t begin, int digits) {
  uint64_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = hex_digit_value(cursor.peek());
    if (digit < 0) return cursor.error(begin, fmt::format("the escape has {} hexadecimal digits", digits));
    value = value * 16 + static_cast<uint64_t>(digit);
    cursor.move_to(cursor.offset() + 1);
  }
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return cursor.error(begin, "the escape's number is no character's");
  return static_cast<char32_t>(value);
}

}  // namespace cairn::grammar
