/// Characters as Python's str sees them. Case and classes beyond ASCII come from utf8proc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::jinja {

bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);  ///< str.isdecimal
bool is_digit(char32_t c);    ///< str.isdigit: decimals and superscripts
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_cased(char32_t c);
bool is_printable(char32_t c);
/// Letters, digits, underscore: what \w matches.
bool is_word(char32_t c);

/// The whole string in upper case; a character may become several (ß, İ, ligatures).
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string casefold(std::string_view text);
/// str.title: a letter after a non-letter in title case, other letters in lower case.
std::string to_title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swapcase(std::string_view text);

/// Number of characters of a string; an ill-formed byte counts as one.
size_t char_count(std::string_view text);
/// Byte offset of character `index`, or text.size() if there are fewer.
size_t char_offset(std::string_view text, size_t index);
/// Byte offsets of all characters and, last, text.size().
std::vector<uint32_t> char_offsets(std::string_view text);
/// True if every byte is below 128, so that characters are bytes.
bool is_ascii(std::string_view text);

/// True if there is a character and `predicate` holds for all.
bool all_chars(std::string_view text, bool (*predicate)(char32_t));

/// str.strip, lstrip and rstrip: `chars` are the characters to remove; nullptr: white space.
std::string_view strip(std::string_view text, const std::string_view* chars, bool left, bool right);

}  // namespace cairn::jinja
