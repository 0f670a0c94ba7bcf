#include "tokenizer/text/lenient_utf8.h"

#include "base/text/utf8.h"

namespace cairn::tokenizer {

int lenient_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0xC0) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

LenientChar lenient_decode(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC0 || lead >= 0xF8) return {};
  const int length = lenient_length(text[offset]);
  if (text.size() - offset < static_cast<size_t>(length)) return {};
  char32_t value = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {value, length, true};
}

void lenient_append(std::string& out, char32_t value) {
  if (value >= 0xD800 && value <= 0xDFFF) {
    out += static_cast<char>(0xE0 | value >> 12);
    out += static_cast<char>(0x80 | (value >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (value & 0x3F));
  } else {
    utf8_append(out, value);
  }
}

Result<std::string_view> lenient_normalise(std::string_view text, std::string& scratch) {
  size_t offset = utf8_valid_prefix(text);
  if (offset == text.size()) return text;
  scratch.assign(text.substr(0, offset));
  while (offset < text.size()) {
    const LenientChar c = lenient_decode(text, offset);
    if (c.value > 0x10FFFF) {
      return fail_at(fmt::format("byte {} of the text", offset), Code::kInvalidArgument,
                     "the text is not UTF-8: no character has the number 0x{:X}", static_cast<uint32_t>(c.value));
    }
    lenient_append(scratch, c.value);
    offset += static_cast<size_t>(c.length);
  }
  return std::string_view(scratch);
}

}  // namespace cairn::tokenizer
