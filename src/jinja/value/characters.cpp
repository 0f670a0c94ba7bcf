#include "jinja/value/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/text/utf8.h"

namespace cairn::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Calls visit(character, its bytes); ill-formed bytes are passed with U+FFFD.
template <class Visit>
void each_char(std::string_view text, Visit visit) {
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Char c = utf8_decode(text, offset);
    visit(c.well_formed ? c.value : 0xFFFD, text.substr(offset, static_cast<size_t>(c.length)));
    offset += static_cast<size_t>(c.length);
  }
}

// Upper-case forms of more than one character (Unicode SpecialCasing.txt, unconditional mappings that occur in
// practice).
std::string_view special_upper(char32_t c) {
  switch (c) {
    case 0xDF:
      return "SS";
    case 0x149:
      return "\xCA\xBCN";
    case 0x1F0:
      return "J\xCC\x8C";
    case 0x587:
      return "\xD4\xB5\xD5\x92";
    case 0xFB00:
      return "FF";
    case 0xFB01:
      return "FI";
    case 0xFB02:
      return "FL";
    case 0xFB03:
      return "FFI";
    case 0xFB04:
      return "FFL";
    case 0xFB05:
    case 0xFB06:
      return "ST";
    default:
      return {};
  }
}

void append_upper(std::string& out, char32_t c, std::string_view bytes) {
  if (c < 0x80) {
    out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c);
  } else if (const std::string_view special = special_upper(c); !special.empty()) {
    out += special;
  } else if (const auto upper = static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(c))); upper != c) {
    utf8_append(out, upper);
  } else {
    out += bytes;
  }
}

void append_lower(std::string& out, char32_t c, std::string_view bytes) {
  if (c < 0x80) {
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  } else if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(c))); lower != c) {
    utf8_append(out, lower);
  } else {
    out += bytes;
  }
}

void append_title(std::string& out, char32_t c, std::string_view bytes) {
  if (c < 0x80) return append_upper(out, c, bytes);
  if (const std::string_view special = special_upper(c); !special.empty()) {
    // Only the first character is in upper case, except for the letter that is just an apostrophe.
    const size_t first = c == 0x149 ? special.size() : char_offset(special, 1);
    out += special.substr(0, first);
    out += to_lower(special.substr(first));
  } else if (const auto title = static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(c))); title != c) {
    utf8_append(out, title);
  } else {
    out += bytes;
  }
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_alpha(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT); }

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_char(text, [&](char32_t c, std::string_view bytes) { append_upper(out, c, bytes); });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_char(text, [&](char32_t c, std::string_view bytes) { append_lower(out, c, bytes); });
  return out;
}

std::string casefold(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_char(text, [&](char32_t c, std::string_view bytes) {
    if (const std::string_view special = special_upper(c); !special.empty())
      out += to_lower(special);
    else if (c == 0x3C2)
      out += "\xCF\x83";  // final sigma folds to sigma
    else
      append_lower(out, c, bytes);
  });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool after_letter = false;
  each_char(text, [&](char32_t c, std::string_view bytes) {
    if (after_letter)
      append_lower(out, c, bytes);
    else
      append_title(out, c, bytes);
    after_letter = is_cased(c);
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool first = true;
  each_char(text, [&](char32_t c, std::string_view bytes) {
    if (first)
      append_title(out, c, bytes);
    else
      append_lower(out, c, bytes);
    first = false;
  });
  return out;
}

std::string swapcase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  each_char(text, [&](char32_t c, std::string_view bytes) {
    if (is_upper(c))
      append_lower(out, c, bytes);
    else
      append_upper(out, c, bytes);
  });
  return out;
}

size_t char_count(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t count = 0;
  each_char(text, [&](char32_t, std::string_view) { ++count; });
  return count;
}

size_t char_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += static_cast<size_t>(utf8_decode(text, offset).length);
  return offset;
}

std::vector<uint32_t> char_offsets(std::string_view text) {
  std::vector<uint32_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t offset = 0; offset < text.size(); offset += static_cast<size_t>(utf8_decode(text, offset).length))
    offsets.push_back(static_cast<uint32_t>(offset));
  offsets.push_back(static_cast<uint32_t>(text.size()));
  return offsets;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool all_chars(std::string_view text, bool (*predicate)(char32_t)) {
  bool all = !text.empty();
  each_char(text, [&](char32_t c, std::string_view) { all = all && predicate(c); });
  return all;
}

std::string_view strip(std::string_view text, const std::string_view* chars, bool left, bool right) {
  const auto taken = [&](char32_t c, std::string_view bytes) {
    if (chars == nullptr) return is_space(c);
    return chars->find(bytes) != std::string_view::npos;  // in UTF-8 a whole character matches only a whole character
  };
  while (left && !text.empty()) {
    const Utf8Char c = utf8_decode(text, 0);
    const auto length = static_cast<size_t>(c.length);
    if (!taken(c.value, text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    Utf8Char c = utf8_decode(text, begin);
    if (begin + static_cast<size_t>(c.length) != text.size()) {  // ill-formed: the last byte counts as a character
      begin = text.size() - 1;
      c = utf8_decode(text, begin);
    }
    if (!taken(c.value, text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace cairn::jinja
