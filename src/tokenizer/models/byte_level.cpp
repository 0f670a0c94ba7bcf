#include "tokenizer/models/byte_level.h"

#include <array>
#include <cstdint>

#include "base/text/utf8.h"

namespace cairn::tokenizer {
namespace {

constexpr char32_t kCharacters = 0x144;  // U+0000 .. U+0143

struct Alphabet {
  std::array<std::string, 256> char_of;
  std::array<int16_t, kCharacters> byte_of;

  Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const char32_t c = itself ? static_cast<char32_t>(byte) : next++;
      utf8_append(char_of[byte], c);
      byte_of[c] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string_view byte_level_char(unsigned char byte) { return alphabet().char_of[byte]; }

void append_byte_level_decoded(std::string& out, std::string_view entry) {
  const Alphabet& letters = alphabet();
  for (size_t offset = 0; offset < entry.size();) {
    const Utf8Char c = utf8_decode(entry, offset);
    if (c.well_formed && c.value < kCharacters && letters.byte_of[c.value] >= 0) {
      out += static_cast<char>(letters.byte_of[c.value]);
    } else {
      out.append(entry.substr(offset, static_cast<size_t>(c.length)));
    }
    offset += static_cast<size_t>(c.length);
  }
}

}  // namespace cairn::tokenizer
