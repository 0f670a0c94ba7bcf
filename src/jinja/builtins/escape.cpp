#include "jinja/builtins/escape.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/text/utf8.h"
#include "jinja/value/characters.h"

namespace cairn::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 36;
}

// The character of a numeric escape: `digits` digits of `base` from `at`. Only octal escapes may have fewer.
std::optional<char32_t> numeric_escape(std::string_view text, size_t at, size_t digits, int base) {
  char32_t value = 0;
  if (at + digits > text.size()) return std::nullopt;
  for (size_t i = 0; i < digits; ++i) {
    const int digit = digit_value(text[at + i]);
    if (digit >= base) return std::nullopt;
    value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
  }
  return value;
}

// The character that a one-letter escape stands for, or 0.
char plain_escape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return '\0';
  }
}

}  // namespace

Result<std::string> unescape(std::string_view literal) {
  std::string out;
  out.reserve(literal.size());
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 >= literal.size()) {
      out += literal[i];
      continue;
    }
    const char c = literal[++i];
    if (const char plain = plain_escape(c); plain != '\0') {
      out += plain;
    } else if (c == '\n') {
      continue;  // the escaped line end continues the line
    } else if (c >= '0' && c <= '7') {
      size_t digits = 1;
      while (digits < 3 && i + digits < literal.size() && literal[i + digits] >= '0' && literal[i + digits] <= '7')
        ++digits;
      utf8_append(out, numeric_escape(literal, i, digits, 8).value_or(0));
      i += digits - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::optional<char32_t> value = numeric_escape(literal, i + 1, digits, 16);
      if (!value.has_value() || *value > 0x10FFFF)
        return fail(Code::kInvalidArgument, "a string has a broken \\{} escape; it needs {} hexadecimal digits", c,
                    digits);
      utf8_append(out, *value);
      i += digits;
    } else if (c == 'N') {
      return fail(Code::kInvalidArgument, "a string has a \\N escape; character names are not supported, use \\u");
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

std::optional<Int> parse_digits(std::string_view digits, int base) {
  if (digits.empty()) return std::nullopt;
  Int value = 0;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value))
      return std::nullopt;
  }
  return value;
}

namespace {

// Drops underscores between digits; nullopt if one is elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || digit_value(text[i - 1]) == 36 || digit_value(text[i + 1]) == 36)
      return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<Int> parse_integer(std::string_view text, int base) {
  text = strip(text, nullptr, true, true);
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const char mark = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = marked;
  }
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits.has_value()) return std::nullopt;
  const std::optional<Int> value = parse_digits(*digits, base == 0 ? 10 : base);
  if (!value.has_value()) return std::nullopt;
  return negative ? -*value : *value;
}

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> clean = without_underscores(strip(text, nullptr, true, true));
  if (!clean.has_value() || clean->empty()) return std::nullopt;
  const std::string lower = to_lower(*clean);
  const std::string_view body = std::string_view(lower).substr(lower[0] == '-' || lower[0] == '+');
  const bool is_word = body == "nan" || body == "inf" || body == "infinity";
  // strtod also reads hexadecimal floats and nan(...), which Python does not.
  if (!is_word && body.find_first_not_of("0123456789.e+-") != std::string_view::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(clean->c_str(), &end);
  if (end != clean->c_str() + clean->size()) return std::nullopt;
  return value;
}

namespace {

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

}  // namespace

Result<void> put_escaped(Buffer& out, const Piece& text) {
  const std::string_view bytes = text.bytes();
  Derivation escaped(out, text);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view character = bytes.substr(i, 1);
    const std::string_view entity = entity_of(bytes[i]);
    CAIRN_TRY_VOID(escaped.put(entity.empty() ? character : entity, character));
  }
  return escaped.finish();
}

}  // namespace cairn::jinja
