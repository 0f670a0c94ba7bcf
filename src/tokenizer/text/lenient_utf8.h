/// UTF-8 as published tokenizers read it: by the shape of its bytes, so that surrogates and over-long forms are
/// characters, and any other byte is U+FFFD. Ill-formed text only gets the same ids as elsewhere if it is read in the
/// same way. For well-formed text all readings agree.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::tokenizer {

/// `value` may be a surrogate or, from f4 90 80 80 on, above U+10FFFF.
struct LenientChar {
  char32_t value = 0xFFFD;
  int length = 1;
  bool shaped = false;  ///< false: the byte at `offset` begins no character, and stands for U+FFFD alone
};

/// `offset` < text.size().
LenientChar lenient_decode(std::string_view text, size_t offset);

/// The length that the lead byte announces: 1 to 4.
int lenient_length(char lead);

/// Appends a character like utf8_append of base, but writes surrogates as the three bytes that they are read from.
void lenient_append(std::string& out, char32_t value);

/// The text with every character in its shortest form; `text` itself if nothing changes, else a view of `scratch`.
/// Errors: kInvalidArgument for a value above U+10FFFF, with its offset.
Result<std::string_view> lenient_normalise(std::string_view text, std::string& scratch);

}  // namespace cairn::tokenizer
