#include "base/text/utf8.h"

#include <algorithm>

namespace cairn {
namespace {

struct Lead {
  int length;               // bytes in the sequence, 0 if this byte cannot begin one
  unsigned char low, high;  // allowed range of the second byte (Unicode 15, table 3-7)
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes at `offset` match a well-formed character, and how many it needs.
struct Match {
  int matched, wanted;
};

Match match_at(std::string_view text, size_t offset) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[offset]));
  if (lead.length == 0) return {0, 0};
  int matched = 1;
  while (matched < lead.length && offset + matched < text.size()) {
    const auto byte = static_cast<unsigned char>(text[offset + matched]);
    const unsigned char low = matched == 1 ? lead.low : 0x80;
    const unsigned char high = matched == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return {matched, lead.length};
}

}  // namespace

size_t utf8_valid_prefix(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const Match match = match_at(text, offset);
    if (match.wanted == 0 || match.matched < match.wanted) return offset;
    offset += match.wanted;
  }
  return offset;
}

Utf8Char utf8_decode(std::string_view text, size_t offset) {
  if (offset >= text.size()) return {0, 0, true};
  const Match match = match_at(text, offset);
  if (match.wanted == 0 || match.matched < match.wanted) return {0xFFFD, 1, false};
  const auto byte = [&](int i) { return static_cast<unsigned char>(text[offset + i]); };
  switch (match.wanted) {
    case 1:
      return {byte(0), 1, true};
    case 2:
      return {char32_t(byte(0) & 0x1F) << 6 | char32_t(byte(1) & 0x3F), 2, true};
    case 3:
      return {char32_t(byte(0) & 0x0F) << 12 | char32_t(byte(1) & 0x3F) << 6 | char32_t(byte(2) & 0x3F), 3, true};
    default:
      return {char32_t(byte(0) & 0x07) << 18 | char32_t(byte(1) & 0x3F) << 12 | char32_t(byte(2) & 0x3F) << 6 |
                  char32_t(byte(3) & 0x3F),
              4, true};
  }
}

void utf8_append(std::string& out, char32_t value) {
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) value = 0xFFFD;
  if (value < 0x80) {
    out += static_cast<char>(value);
  } else if (value < 0x800) {
    out += static_cast<char>(0xC0 | value >> 6);
    out += static_cast<char>(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    out += static_cast<char>(0xE0 | value >> 12);
    out += static_cast<char>(0x80 | (value >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (value & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | value >> 18);
    out += static_cast<char>(0x80 | (value >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (value >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (value & 0x3F));
  }
}

size_t utf8_incomplete_suffix(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t offset = text.size() - back;
    const Match match = match_at(text, offset);
    if (match.wanted == 0) continue;  // a continuation byte: look further back
    return match.matched == static_cast<int>(back) && match.wanted > match.matched ? back : 0;
  }
  return 0;
}

std::string utf8_replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t offset = 0;
  while (offset < text.size()) {
    const Match match = match_at(text, offset);
    if (match.wanted != 0 && match.matched == match.wanted) {
      out.append(text.substr(offset, match.wanted));
      offset += match.wanted;
    } else {
      out += "\xEF\xBF\xBD";
      offset += std::max(1, match.matched);
    }
  }
  return out;
}

}  // namespace cairn
