#include "evaluation/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace cairn::evaluation {
namespace {

constexpr size_t kGroupDigits = 3;
constexpr int kExponentMax = 18;  // a power of ten in 63 bits
constexpr int64_t kTen = 10;
constexpr std::string_view kMinus = "\xe2\x88\x92";  // U+2212
constexpr std::string_view kTimes = "\xc3\x97";      // U+00D7
constexpr std::string_view kDot = "\xc2\xb7";        // U+00B7

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_latin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool multiply(int64_t a, int64_t b, int64_t& out) { return !__builtin_mul_overflow(a, b, &out); }

std::optional<ExactNumber> reduced(int64_t numerator, int64_t denominator) {
  if (denominator <= 0 || numerator == std::numeric_limits<int64_t>::min()) return {};
  const int64_t common = std::gcd(numerator, denominator);
  return ExactNumber{numerator / common, denominator / common};
}

std::optional<ExactNumber> divided(const ExactNumber& a, const ExactNumber& b) {
  // Crosswise first, so that what fits in the end is not lost on the way.
  if (b.numerator == 0) return {};
  const int64_t top = std::gcd(a.numerator, b.numerator), bottom = std::gcd(a.denominator, b.denominator);
  int64_t numerator = 0, denominator = 0;
  if (!multiply(a.numerator / top, b.denominator / bottom, numerator) ||
      !multiply(a.denominator / bottom, b.numerator / top, denominator))
    return {};
  if (denominator < 0 &&
      (__builtin_mul_overflow(numerator, -1, &numerator) || __builtin_mul_overflow(denominator, -1, &denominator)))
    return {};
  return reduced(numerator, denominator);
}

std::optional<ExactNumber> sum(const ExactNumber& a, const ExactNumber& b) {
  int64_t left = 0, right = 0, both = 0, denominator = 0;
  if (!multiply(a.numerator, b.denominator, left) || !multiply(b.numerator, a.denominator, right) ||
      __builtin_add_overflow(left, right, &both) || !multiply(a.denominator, b.denominator, denominator))
    return {};
  return reduced(both, denominator);
}

std::optional<ExactNumber> power_of_ten(int64_t exponent) {
  if (exponent < -kExponentMax || exponent > kExponentMax) return {};
  int64_t power = 1;
  for (int64_t i = 0; i < std::abs(exponent); ++i) power *= kTen;
  return exponent < 0 ? ExactNumber{1, power} : ExactNumber{power, 1};
}

/// Reads at a place of the text, which moves only over what was read.
class Reader {
 public:
  Reader(std::string_view text, size_t at) : text_(text), at_(at) {}
  size_t at() const { return at_; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool skip(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void skip_blanks() {
    while (peek() == ' ') ++at_;
  }
  void move(size_t at) { at_ = at; }

  /// Digits with separators, decimals and a power of ten. `too_large`: it does not fit.
  std::optional<ExactNumber> decimal(bool& too_large);
  /// The same, or a fraction. Nothing: no number stands here, and the place is as before.
  std::optional<ExactNumber> number(bool& too_large);

 private:
  /// How many bytes of a separator of thousands stand here, with three digits and no fourth behind them.
  size_t separator(char first) const;
  bool digit(int64_t& value, bool& too_large);
  std::optional<int64_t> exponent();
  std::optional<ExactNumber> latex_fraction(bool& too_large);

  std::string_view text_;
  size_t at_;
};

size_t Reader::separator(char first) const {
  constexpr std::array<std::string_view, 6> kSeparators = {",", "_", " ", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89"};
  for (const std::string_view each : kSeparators) {
    if (!text_.substr(at_).starts_with(each) || (first != '\0' && each.front() != first)) continue;
    const size_t begin = each.size();
    const bool group = is_digit(peek(begin)) && is_digit(peek(begin + 1)) && is_digit(peek(begin + 2)) &&
                       !is_digit(peek(begin + kGroupDigits));
    return group ? each.size() : 0;
  }
  return 0;
}

bool Reader::digit(int64_t& value, bool& too_large) {
  if (!is_digit(peek())) return false;
  too_large = too_large || __builtin_mul_overflow(value, kTen, &value) ||
              __builtin_add_overflow(value, int64_t{peek() - '0'}, &value);
  ++at_;
  return true;
}

std::optional<int64_t> Reader::exponent() {
  const size_t begin = at_;
  bool behind_ten = false;
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
  } else {
    skip_blanks();
    if (!skip(kTimes) && !skip("\\times") && !skip("\\cdot") && !skip(kDot) && !skip("*") && !skip("x")) {
      at_ = begin;
      return {};
    }
    skip_blanks();
    behind_ten = skip("10^") || skip("10**");
    if (!behind_ten) {
      at_ = begin;
      return {};
    }
  }
  const bool braces = behind_ten && skip("{");
  const bool negative = skip("-") || skip(kMinus);
  if (!negative) skip("+");
  int64_t value = 0;
  bool too_large = false;
  const size_t digits = at_;
  while (digit(value, too_large)) {
  }
  if (at_ == digits || too_large || (braces && !skip("}"))) {
    at_ = begin;
    return {};
  }
  return negative ? -value : value;
}

std::optional<ExactNumber> Reader::decimal(bool& too_large) {
  int64_t value = 0;
  const size_t begin = at_;
  while (digit(value, too_large)) {
  }
  const size_t digits = at_ - begin;
  if (digits == 0 && !(peek() == '.' && is_digit(peek(1)))) return {};
  if (digits > 0 && digits <= kGroupDigits) {
    char first = '\0';  // the same separator throughout
    for (size_t bytes = separator(first); bytes > 0; bytes = separator(first)) {
      first = peek();
      at_ += bytes;
      for (size_t i = 0; i < kGroupDigits; ++i) digit(value, too_large);
    }
  }
  int64_t decimals = 0;
  if ((peek() == '.' || (peek() == ',' && digits > 0 && separator('\0') == 0)) && is_digit(peek(1))) {
    ++at_;
    // Zeros at the end say nothing, and would be too many for exact numbers.
    size_t zeros = 0;
    while (is_digit(peek())) {
      if (peek() == '0') {
        ++zeros;
        ++at_;
        continue;
      }
      for (; zeros > 0; --zeros, ++decimals) too_large = too_large || __builtin_mul_overflow(value, kTen, &value);
      digit(value, too_large);
      ++decimals;
    }
  }
  const std::optional<int64_t> power = exponent();
  int64_t exponent = -decimals;
  if (power && __builtin_add_overflow(exponent, *power, &exponent)) too_large = true;
  const auto scale = power_of_ten(value == 0 ? 0 : std::clamp<int64_t>(-exponent, -kExponentMax - 1, kExponentMax + 1));
  const auto result = scale && !too_large ? divided({value, 1}, *scale) : std::nullopt;
  too_large = too_large || !result;
  return result ? result : ExactNumber{};
}

std::optional<ExactNumber> Reader::latex_fraction(bool& too_large) {
  const size_t begin = at_;
  if (!skip("\\frac") && !skip("\\dfrac") && !skip("\\tfrac")) return {};
  std::array<ExactNumber, 2> parts;
  for (ExactNumber& part : parts) {
    const bool open = skip("{");
    const bool negative = open && (skip("-") || skip(kMinus));
    const auto value = open ? decimal(too_large) : std::nullopt;
    if (!value || !skip("}")) {
      at_ = begin;
      return {};
    }
    part = *value;
    if (negative) part.numerator = -part.numerator;
  }
  const auto result = divided(parts[0], parts[1]);
  too_large = too_large || !result;
  return result ? result : ExactNumber{};
}

std::optional<ExactNumber> Reader::number(bool& too_large) {
  if (auto fraction = latex_fraction(too_large)) return fraction;
  const auto first = decimal(too_large);
  if (!first) return {};
  const size_t end = at_;
  const auto slash_fraction = [&](const ExactNumber& top) -> std::optional<ExactNumber> {
    const size_t begin = at_;
    skip_blanks();
    if (skip("/")) {
      skip_blanks();
      if (const auto bottom = decimal(too_large); bottom && bottom->numerator != 0) return divided(top, *bottom);
    }
    at_ = begin;
    return {};
  };
  if (auto fraction = slash_fraction(*first)) return fraction;
  if (first->denominator != 1) return first;
  // A whole number with a fraction behind it.
  bool ignored = false;
  skip_blanks();
  auto rest = latex_fraction(ignored);
  if (!rest && at_ > end) {
    if (const auto top = decimal(ignored)) rest = slash_fraction(*top);
  }
  if (rest && !ignored && rest->numerator >= 0 && rest->numerator < rest->denominator) return sum(*first, *rest);
  at_ = end;
  return first;
}

/// Whether the byte at `at` continues a word, so that digits there are no number.
bool within_word(std::string_view text, size_t at) {
  if (at == 0) return false;
  const char before = text[at - 1];
  return is_latin(before) || before == '_' || (is_digit(before));
}

}  // namespace

std::string ExactNumber::text() const {
  return denominator == 1 ? std::to_string(numerator) : fmt::format("{}/{}", numerator, denominator);
}

std::optional<FoundNumber> find_number(std::string_view text, size_t from) {
  for (size_t at = from; at < text.size(); ++at) {
    const bool point = text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]);
    if (!is_digit(text[at]) && !point && text[at] != '\\') continue;
    // "\frac" may stand behind a letter's command; digits may not.
    if (text[at] != '\\' && within_word(text, at)) continue;
    if (point && at > 0 && text[at - 1] == '.') continue;
    Reader reader(text, at);
    bool too_large = false;
    const auto value = reader.number(too_large);
    if (!value) continue;
    // The sign, if it is one, and not a dash between two numbers or words.
    size_t begin = at;
    const std::string_view before = text.substr(0, at);
    const size_t sign = before.ends_with(kMinus)                         ? kMinus.size()
                        : before.ends_with('-') || before.ends_with('+') ? 1
                                                                         : 0;
    const bool is_sign = sign > 0 && at - sign >= from &&
                         (at == sign || (!is_digit(text[at - sign - 1]) && !is_latin(text[at - sign - 1])));
    if (is_sign) begin -= sign;
    if (too_large) return FoundNumber{{}, begin, reader.at()};
    ExactNumber number = *value;
    if (is_sign && text[begin] != '+') number.numerator = -number.numerator;
    return FoundNumber{number, begin, reader.at()};
  }
  return {};
}

std::optional<ExactNumber> last_number(std::string_view text) {
  std::optional<ExactNumber> last;
  for (auto found = find_number(text); found; found = find_number(text, found->end)) last = found->value;
  return last;
}

}  // namespace cairn::evaluation
