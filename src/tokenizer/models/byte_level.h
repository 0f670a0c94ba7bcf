/// The alphabet of byte-level vocabularies: every byte is written as one printable character.
/// Source: the published GPT-2 encoder (MIT licence): bytes 21-7E, A1-AC and AE-FF are the characters of that number;
/// the others, in order, are U+0100, U+0101, ... U+0143, so that a space is "Ġ" (U+0120).
#pragma once

#include <string>
#include <string_view>

namespace cairn::tokenizer {

/// The character of a byte, as UTF-8.
std::string_view byte_level_char(unsigned char byte);

/// Appends the bytes that an entry's characters stand for. A character outside the alphabet stands for itself.
void append_byte_level_decoded(std::string& out, std::string_view entry);

}  // namespace cairn::tokenizer
