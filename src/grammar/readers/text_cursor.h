/// A place in the text of a grammar that is being read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"

namespace cairn::grammar {

inline constexpr size_t kGrammarBytesMax = 1 << 20;
inline constexpr size_t kGrammarRulesMax = 10'000;
inline constexpr int kGrammarDepthMax = 250;  ///< groups within groups

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  /// Errors: kTooLarge (kGrammarBytesMax), kInvalidArgument (not UTF-8).
  Result<void> check() const {
    if (text_.size() > kGrammarBytesMax)
      return fail_at("1:1", Code::kTooLarge, "the grammar is longer than {} bytes", kGrammarBytesMax);
    if (const size_t valid = utf8_valid_prefix(text_); valid != text_.size())
      return fail_at(place(valid), Code::kInvalidArgument, "not UTF-8");
    return {};
  }

  std::string_view text() const { return text_; }
  size_t offset() const { return offset_; }
  void move_to(size_t offset) { offset_ = offset; }
  bool at_end() const { return offset_ >= text_.size(); }
  /// '\0' past the end.
  char peek(size_t ahead = 0) const { return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0'; }
  bool sees(std::string_view what) const { return text_.substr(offset_).starts_with(what); }
  bool take(std::string_view what) {
    if (!sees(what)) return false;
    offset_ += what.size();
    return true;
  }
  /// Takes characters for which `wanted` holds, and returns them.
  template <class Wanted>
  std::string_view take_while(Wanted wanted) {
    const size_t begin = offset_;
    while (!at_end() && wanted(text_[offset_])) ++offset_;
    return text_.substr(begin, offset_ - begin);
  }
  /// Needs !at_end().
  char32_t take_character() {
    const Utf8Char next = utf8_decode(text_, offset_);
    offset_ += static_cast<size_t>(next.length);
    return next.value;
  }

  /// "line:column" of an offset, both from 1; columns count characters.
  std::string place(size_t offset) const {
    size_t line = 1;
    size_t column = 1;
    for (const char c : text_.substr(0, offset)) {
      if (c == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
        ++column;
      }
    }
    return std::to_string(line) + ":" + std::to_string(column);
  }
  std::unexpected<Error> error(size_t offset, std::string message, Code code = Code::kInvalidArgument) const {
    return std::unexpected(Error{code, std::move(message), place(offset)});
  }

 private:
  std::string_view text_;
  size_t offset_ = 0;
};

inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_ascii_upper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool is_ascii_lower(char c) { return c >= 'a' && c <= 'z'; }
inline bool is_ascii_letter(char c) { return is_ascii_upper(c) || is_ascii_lower(c); }
/// -1: not a hexadecimal digit.
inline int hex_digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The decimal number at the cursor. Errors: kInvalidArgument (none there), kTooLarge (above kRegexCountMax).
Result<uint32_t> take_count(TextCursor& cursor);
/// Exactly `digits` hexadecimal digits as a character. `begin`: where the escape begins, for errors.
Result<char32_t> take_hex_character(TextCursor& cursor, size_t begin, int digits);

}  // namespace cairn::grammar
