#include "gguf/printable.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"

namespace cairn::gguf {

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out;
  size_t offset = 0;
  while (offset < text.size()) {
    const Utf8Char character = utf8_decode(text, offset);
    const auto length = static_cast<size_t>(character.length);
    if (offset + length > bytes_max) return out + "...";
    const bool c1_control = character.value >= 0x7f && character.value < 0xa0;
    if (character.well_formed && character.value >= 0x20 && !c1_control) {
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

}  // namespace cairn::gguf
