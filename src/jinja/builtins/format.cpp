// Layout of numbers and strings, and the % operator.
#include "jinja/builtins/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "jinja/builtins/escape.h"
#include "jinja/value/characters.h"
#include "jinja/value/repr.h"

namespace cairn::jinja {
namespace {

// More digits than any float has.
constexpr int64_t kPrecisionMax = 1100;

std::string integer_digits(Int value, char type) {
  const auto magnitude = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

Result<std::string> float_digits(double value, const FormatSpec& spec) {
  const double magnitude = std::fabs(value);
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (std::isnan(magnitude)) return std::string(upper ? "NAN" : "nan");
  if (std::isinf(magnitude)) return std::string(upper ? "INF" : "inf");
  if (spec.precision > kPrecisionMax)
    return fail(Code::kInvalidArgument, "a precision of {} is too large", spec.precision);
  if (spec.type == '\0' && spec.precision < 0) return float_repr(magnitude);
  const char type = spec.type == '\0' ? 'g' : spec.type == '%' ? 'f' : spec.type;
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const double scaled = spec.type == '%' ? magnitude * 100 : magnitude;
  const char pattern[] = {'%', spec.alternate ? '#' : '-', '.', '*', type, '\0'};
  std::array<char, 2 * kPrecisionMax> bytes;
  const int length = std::snprintf(bytes.data(), bytes.size(), pattern, precision, scaled);
  std::string out(bytes.data(), static_cast<size_t>(std::clamp<int>(length, 0, static_cast<int>(bytes.size()) - 1)));
  if (spec.type == '%') out += '%';
  return out;
}

// The digits with separators between thousands (or, for hexadecimal and the like, between groups of four).
std::string grouped(const std::string& digits, const FormatSpec& spec) {
  if (spec.grouping == '\0') return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  const size_t group = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' ? 4 : 3;
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out += spec.grouping;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

}  // namespace

Result<void> put_aligned(Buffer& out, Piece text, const FormatSpec& spec, char align) {
  if (spec.precision >= 0) text = text.substr(0, char_offset(text.bytes(), static_cast<size_t>(spec.precision)));
  const int64_t padding = spec.width - static_cast<int64_t>(char_count(text.bytes()));
  if (padding <= 0) return out.put(text);
  if (spec.align != '\0') align = spec.align;
  const int64_t left = align == '>' || align == '=' ? padding : align == '^' ? padding / 2 : 0;
  CAIRN_TRY_VOID(out.put_repeated(spec.fill, left));
  CAIRN_TRY_VOID(out.put(text));
  return out.put_repeated(spec.fill, padding - left);
}

Result<void> put_number(Buffer& out, const Value& number, const FormatSpec& spec) {
  std::string sign;
  std::string digits;
  const bool as_integer = number.is_integral() && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos;
  if (as_integer) {
    if (number.integral() < 0) sign = "-";
    digits = integer_digits(number.integral(), spec.type);
    if (spec.precision > static_cast<int64_t>(digits.size())) {
      if (spec.precision > kPrecisionMax)
        return fail(Code::kInvalidArgument, "a precision of {} is too large", spec.precision);
      digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
    }
  } else {
    const double value = number.floating();
    if (std::signbit(value) && !std::isnan(value)) sign = "-";
    CAIRN_TRY(digits, float_digits(value, spec));
  }
  if (sign.empty() && spec.sign != '-') sign = std::string(1, spec.sign);
  if (as_integer && spec.alternate && std::string_view("xXob").find(spec.type) != std::string_view::npos)
    sign += std::string("0") + spec.type;
  digits = grouped(digits, spec);
  const auto length = static_cast<int64_t>(sign.size() + digits.size());
  if (spec.width > length && (spec.zero || spec.align == '=') && (spec.align == '=' || spec.align == '\0')) {
    CAIRN_TRY_VOID(out.put(Piece::own(sign)));
    CAIRN_TRY_VOID(out.put_repeated(spec.zero ? Piece("0") : spec.fill, spec.width - length));
    return out.put(Piece::own(digits));
  }
  FormatSpec layout = spec;
  layout.precision = -1;
  const std::string number_text = sign + digits;
  return put_aligned(out, Piece::own(number_text), layout, '>');
}

namespace {

class Percent {
 public:
  Percent(Budget& budget, const Value& text, const Value& values)
      : out_(budget),
        whole_(text.piece()),
        text_(text.text()),
        values_(values),
        is_tuple_(values.is(Kind::kList) && values.is_tuple()) {}

  Result<Value> run(bool markup) {
    while (pos_ < text_.size()) {
      const size_t percent = text_.find('%', pos_);
      CAIRN_TRY_VOID(out_.put(whole_.part(text_.substr(pos_, percent - pos_))));
      if (percent == std::string_view::npos) break;
      pos_ = percent + 1;
      CAIRN_TRY_VOID(field());
    }
    const bool used_up = is_tuple_ ? next_ == values_.items().size()
                                   : next_ > 0 || by_name_ || values_.is(Kind::kDict) || (values_.is(Kind::kList));
    if (!used_up) return fail(Code::kInvalidArgument, "not all arguments converted during string formatting");
    return make_text(std::move(out_), markup);
  }

 private:
  char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

  Result<Value> next_value() {
    if (is_tuple_ ? next_ >= values_.items().size() : next_ > 0)
      return fail(Code::kInvalidArgument, "not enough arguments for format string");
    const size_t at = next_++;
    return is_tuple_ ? values_.items()[at] : values_;
  }

  // Parses a number in the format, or takes one of the values for '*'.
  Result<int64_t> amount() {
    if (peek() == '*') {
      ++pos_;
      CAIRN_TRY(const Value value, next_value());
      if (!value.is_integral() || value.integral() > INT32_MAX || value.integral() < -INT32_MAX)
        return fail(Code::kInvalidArgument, "* wants int");
      return static_cast<int64_t>(value.integral());
    }
    int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++pos_) value = std::min<int64_t>(value * 10 + (peek() - '0'), INT32_MAX);
    return value;
  }

  Result<void> field();
  Result<void> convert(char type, const Value& value, FormatSpec spec);

  Buffer out_;
  Piece whole_;
  std::string_view text_;
  const Value& values_;
  bool is_tuple_;
  bool by_name_ = false;
  size_t pos_ = 0;
  size_t next_ = 0;
};

Result<void> Percent::field() {
  Value value;
  bool named = false;
  if (peek() == '(') {
    const size_t close = text_.find(')', pos_);
    if (close == std::string_view::npos) return fail(Code::kInvalidArgument, "incomplete format key");
    const std::string_view name = text_.substr(pos_ + 1, close - pos_ - 1);
    if (!values_.is(Kind::kDict)) return fail(Code::kInvalidArgument, "format requires a mapping");
    const Value* found = values_.dict().find(name);
    if (found == nullptr) return fail(Code::kInvalidArgument, "no value for '{}' in a format", name);
    value = *found;
    named = by_name_ = true;
    pos_ = close + 1;
  }
  FormatSpec spec;
  for (; std::string_view("-+ 0#").find(peek()) != std::string_view::npos && peek() != '\0'; ++pos_) {
    if (peek() == '-') spec.align = '<';
    if (peek() == '+' || (peek() == ' ' && spec.sign == '-')) spec.sign = peek();
    if (peek() == '0') spec.zero = true;
    if (peek() == '#') spec.alternate = true;
  }
  CAIRN_TRY(spec.width, amount());
  if (spec.width < 0) {
    spec.align = '<';
    spec.width = -spec.width;
  }
  if (peek() == '.') {
    ++pos_;
    CAIRN_TRY(spec.precision, amount());
    spec.precision = std::max<int64_t>(spec.precision, 0);
  }
  while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++pos_;
  const char type = peek();
  if (type == '\0') return fail(Code::kInvalidArgument, "incomplete format");
  ++pos_;
  if (type == '%') return out_.put(whole_.part(text_.substr(pos_ - 1, 1)));
  if (!named) {
    CAIRN_TRY(value, next_value());
  }
  return convert(type, value, std::move(spec));
}

Result<void> Percent::convert(char type, const Value& value, FormatSpec spec) {
  switch (type) {
    case 's':
    case 'r':
    case 'a': {
      Buffer text(out_.budget());
      CAIRN_TRY_VOID(type == 's' ? put_str(text, value) : put_repr(text, value));
      return put_aligned(out_, text.piece(), spec, '>');
    }
    case 'c':
      if (value.is(Kind::kText) && char_count(value.text()) == 1) return put_aligned(out_, value.piece(), spec, '>');
      return fail(Code::kInvalidArgument, "%c requires a single character");
    case 'd':
    case 'i':
    case 'u': {
      if (value.is(Kind::kUndefined)) return undefined_error(value);
      if (!value.is_number())
        return fail(Code::kInvalidArgument, "%{} format: a real number is required, not {}", type, type_name(value));
      spec.type = 'd';
      if (value.is_integral()) return put_number(out_, value, spec);
      const double whole = std::trunc(value.floating());
      if (!(std::fabs(whole) < 1e38)) return fail(Code::kInvalidArgument, "cannot convert the float to an integer");
      return put_number(out_, Value(static_cast<Int>(whole)), spec);
    }
    case 'x':
    case 'X':
    case 'o':
      if (!value.is_integral())
        return fail(Code::kInvalidArgument, "%{} format: an integer is required, not {}", type, type_name(value));
      spec.type = type;
      return put_number(out_, value, spec);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (value.is(Kind::kUndefined)) return undefined_error(value);
      if (!value.is_number()) return fail(Code::kInvalidArgument, "must be real number, not {}", type_name(value));
      spec.type = type;
      return put_number(out_, value, spec);
    default:
      return fail(Code::kInvalidArgument, "unsupported format character '{}'", type);
  }
}

}  // namespace

Result<Value> format_percent(Budget& budget, const Value& text, const Value& values) {
  return Percent(budget, text, values).run(text.is_markup());
}

}  // namespace cairn::jinja
