#include "grammar/json_schema/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <numeric>
#include <vector>

namespace cairn::grammar {

std::string Decimal::text() const { return (negative ? "-" : "") + integer + (fraction.empty() ? "" : "." + fraction); }

std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal out;
  if (text.starts_with("-")) {
    out.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with("+")) digits.remove_prefix(1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (read.ec != std::errc() || exponent > 400 || exponent < -400) return std::nullopt;
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  out.integer = text.substr(0, point);
  if (point != std::string_view::npos) out.fraction = text.substr(point + 1);
  for (; exponent > 0; --exponent) {
    out.integer += out.fraction.empty() ? '0' : out.fraction[0];
    if (!out.fraction.empty()) out.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    out.fraction.insert(0, 1, out.integer.empty() ? '0' : out.integer.back());
    if (!out.integer.empty()) out.integer.pop_back();
  }
  out.integer.erase(0, std::min(out.integer.find_first_not_of('0'), out.integer.size()));
  if (out.integer.empty()) out.integer = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.zero()) out.negative = false;
  if (out.integer.size() > kIntegerDigitsMax || out.fraction.size() > kFractionDigitsMax) return std::nullopt;
  return out;
}

namespace {

/// All digits as a whole number of units of the last place; nullopt over kDivisorMax.
std::optional<uint64_t> in_last_place(const Decimal& divisor) {
  const std::string digits = divisor.integer + divisor.fraction;
  uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return read.ec == std::errc() && value <= kDivisorMax ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Decimal> common_multiple(const Decimal& a, const Decimal& b) {
  const bool swapped = a.fraction.size() > b.fraction.size();
  const Decimal& coarse = swapped ? b : a;
  const Decimal& fine = swapped ? a : b;
  const auto one = in_last_place(coarse), other = in_last_place(fine);
  if (!one || !other || *one == 0 || *other == 0) return std::nullopt;
  uint64_t rest = *one % *other;  // of the coarse one in units of the fine one's last place
  for (size_t i = coarse.fraction.size(); i < fine.fraction.size(); ++i) rest = rest * 10 % *other;
  const uint64_t factor = *other / std::gcd(rest, *other);
  std::optional<Decimal> multiple = read_decimal(fmt::format("{}e-{}", *one * factor, coarse.fraction.size()));
  return multiple && in_last_place(*multiple) ? multiple : std::nullopt;
}

NumberText::NumberText(JsonText& text) : text_(text), pool_(text.pool()) {
  const RegexId minus = pool_.repeat(pool_.literal("-"), 0, 1);
  const RegexId integer = text.either(pool_.literal("0"), text.then(digit('1', '9'), digits(0, kIntegerDigitsMax - 1)));
  fraction_ = pool_.repeat(text.then(pool_.literal("."), digits(1, kFractionDigitsMax)), 0, 1);
  zero_fraction_ =
      pool_.repeat(text.then(pool_.literal("."), pool_.repeat(pool_.literal("0"), 1, kFractionDigitsMax)), 0, 1);
  magnitude_ = text.then(integer, fraction_);
  plain_ = text.then(minus, magnitude_);
  written_integers_ = text.then(minus, integer);
  integers_ = text.then(written_integers_, zero_fraction_);
  const RegexId exponent[] = {pool_.bytes(ByteSet::of("eE")), pool_.repeat(pool_.bytes(ByteSet::of("+-")), 0, 1),
                              digits(1, kExponentDigitsMax)};
  exponent_ = pool_.repeat(pool_.sequence(exponent), 0, 1);
  any_ = text.then(plain_, exponent_);
}

RegexId NumberText::shortest() {
  const RegexId zero = pool_.literal("0");
  const RegexId minus = pool_.repeat(pool_.literal("-"), 0, 1);
  const RegexId integer = text_.then(digit('1', '9'), digits(0, kIntegerDigitsMax - 1));
  const RegexId parts[] = {pool_.literal("."), digits(0, kFractionDigitsMax - 1), digit('1', '9')};
  const RegexId fraction = pool_.sequence(parts);
  const RegexId with_fraction = text_.then(text_.either(zero, integer), fraction);
  const RegexId signed_ones = text_.then(minus, text_.either(integer, with_fraction));
  return text_.either(zero, signed_ones);
}

RegexId NumberText::digits(uint32_t min, uint32_t max) { return pool_.repeat(digit('0', '9'), min, max); }

RegexId NumberText::digit(char first, char last) {
  if (first > last) return kNoMatch;
  return pool_.bytes(ByteSet::range(static_cast<uint8_t>(first), static_cast<uint8_t>(last)));
}

/// What follows the integer digits, point included: fractions above or below that of the bound.
RegexId NumberText::fraction_beyond(std::string_view fraction, Side side) {
  std::vector<RegexId> choices;
  const auto used = static_cast<uint32_t>(fraction.size());
  for (uint32_t i = 0; i < used; ++i) {  // the first i digits equal, the next one decides
    const RegexId next = side == Side::kAbove ? digit(static_cast<char>(fraction[i] + 1), '9')
                                              : digit('0', static_cast<char>(fraction[i] - 1));
    const RegexId parts[] = {pool_.literal("."), pool_.literal(fraction.substr(0, i)), next,
                             digits(0, kFractionDigitsMax - i - 1)};
    choices.push_back(pool_.sequence(parts));
  }
  if (side == Side::kAbove && used < kFractionDigitsMax) {  // all equal, then a digit that is not 0
    const RegexId more[] = {pool_.literal("."), pool_.literal(fraction), digits(1, kFractionDigitsMax - used)};
    const RegexId zeros =
        text_.then(pool_.literal("." + std::string(fraction)), pool_.repeat(pool_.literal("0"), 0, std::nullopt));
    choices.push_back(text_.except(pool_.sequence(more), zeros));
  }
  if (side == Side::kBelow && used > 0) {  // shorter: a beginning of the bound's digits, whose last one is not 0
    choices.push_back(kEmptyText);
    for (uint32_t i = 1; i < used; ++i) choices.push_back(pool_.literal("." + std::string(fraction.substr(0, i))));
  }
  return pool_.any_of(choices);
}

RegexId NumberText::magnitude(const Decimal& bound, Side side) {
  std::vector<RegexId> choices;
  const std::string& integer = bound.integer;
  const auto length = static_cast<uint32_t>(integer.size());
  const RegexId all_fractions = fraction_;
  if (side == Side::kAbove) {  // longer
    if (length < kIntegerDigitsMax) {
      const RegexId parts[] = {digit('1', '9'), digits(length, kIntegerDigitsMax - 1), all_fractions};
      choices.push_back(pool_.sequence(parts));
    }
  } else if (length > 1) {  // shorter
    choices.push_back(text_.then(pool_.literal("0"), all_fractions));
    const RegexId parts[] = {digit('1', '9'), digits(0, length - 2), all_fractions};
    choices.push_back(pool_.sequence(parts));
  }
  for (uint32_t i = 0; i < length; ++i) {  // as long, the digit at i decides
    const char lowest = i == 0 && length > 1 ? '1' : '0';
    const RegexId next = side == Side::kAbove ? digit(static_cast<char>(integer[i] + 1), '9')
                                              : digit(lowest, static_cast<char>(integer[i] - 1));
    const RegexId parts[] = {pool_.literal(integer.substr(0, i)), next, digits(length - i - 1, length - i - 1),
                             all_fractions};
    choices.push_back(pool_.sequence(parts));
  }
  choices.push_back(text_.then(pool_.literal(integer), fraction_beyond(bound.fraction, side)));
  return pool_.any_of(choices);
}

RegexId NumberText::magnitude_equal(const Decimal& value) {
  if (value.fraction.empty()) return text_.then(pool_.literal(value.integer), zero_fraction_);
  const auto used = static_cast<uint32_t>(value.fraction.size());
  return text_.then(pool_.literal(value.integer + "." + value.fraction),
                    pool_.repeat(pool_.literal("0"), 0, kFractionDigitsMax - used));
}

RegexId NumberText::signed_compare(const Decimal& bound, bool exclusive, Side side) {
  const RegexId minus = pool_.literal("-");
  const Side inside = bound.negative == (side == Side::kAbove) ? Side::kBelow : Side::kAbove;
  RegexId beyond = magnitude(bound, inside);
  std::vector<RegexId> choices;
  if (bound.negative == (side == Side::kAbove)) {
    // The values between the bound and zero, and all of the other sign: the bound is negative and they are above it, or
    // it is not and they are below.
    const RegexId other_sign = bound.negative ? magnitude_ : text_.then(minus, magnitude_);
    choices.push_back(other_sign);
    choices.push_back(bound.negative ? text_.then(minus, beyond) : beyond);
    if (bound.zero() && exclusive) {  // below 0: "-0" is not
      return text_.except(other_sign, equal(bound));
    }
  } else {
    choices.push_back(bound.negative ? text_.then(minus, beyond) : beyond);
  }
  if (!exclusive) choices.push_back(equal(bound));
  return pool_.any_of(choices);
}

// On which side of 0 a number is no exponent changes.
RegexId NumberText::at_least(const Decimal& bound, bool exclusive) {
  const RegexId plain = signed_compare(bound, exclusive, Side::kAbove);
  return bound.zero() && !exclusive ? text_.then(plain, exponent_) : plain;
}

RegexId NumberText::at_most(const Decimal& bound, bool exclusive) {
  const RegexId plain = signed_compare(bound, exclusive, Side::kBelow);
  return bound.zero() && !exclusive ? text_.then(plain, exponent_) : plain;
}

RegexId NumberText::equal(const Decimal& value) {
  const RegexId magnitude = magnitude_equal(value);
  if (value.zero()) return text_.then(pool_.repeat(pool_.literal("-"), 0, 1), magnitude);
  return value.negative ? text_.then(pool_.literal("-"), magnitude) : magnitude;
}

Result<RegexId> NumberText::multiple_of(const Decimal& divisor) {
  const std::string name = divisor.text();
  if (const auto known = multiples_.find(name); known != multiples_.end()) return known->second;
  CAIRN_TRY(const RegexId made, make_multiples(divisor));
  multiples_.emplace(name, made);
  return made;
}

Result<RegexId> NumberText::make_multiples(const Decimal& divisor) {
  if (pool_.full()) return fail(Code::kTooLarge, "the schema needs {}", pool_.excess());
  const auto scale = static_cast<uint32_t>(divisor.fraction.size());
  const std::optional<uint64_t> value = in_last_place(divisor);
  if (!value) return fail(Code::kTooLarge, "a divisor of more than {} in its last place", kDivisorMax);
  const uint64_t states = *value * (scale + 2);
  if (states > kRemaindersMax) {
    return fail(Code::kTooLarge, "a divisor that needs more than {} states; give it fewer places behind the point",
                kRemaindersMax);
  }
  // States: 0 to m - 1 the remainder of the integer digits, then of those behind the point, and at the end zeros only.
  const auto m = static_cast<uint32_t>(*value);
  RegexPool::Automaton automaton;
  const auto behind = [&](uint32_t place, uint32_t remainder) { return m * (place + 1) + remainder; };
  const auto scaled_zero = [&](uint32_t remainder, uint32_t places) {
    uint64_t rest = remainder;
    for (uint32_t i = 0; i < places; ++i) rest = rest * 10 % m;
    return rest == 0;
  };
  for (uint32_t place = 0; place <= scale + 1; ++place) {  // 0: before the point
    for (uint32_t remainder = 0; remainder < m; ++remainder) {
      const uint32_t left = place == 0 ? scale : scale + 1 - place;
      automaton.add_state(scaled_zero(remainder, left));
      for (uint32_t d = 0; d < 10; ++d) {
        const auto next = static_cast<uint32_t>((uint64_t{remainder} * 10 + d) % m);
        if (place == 0) {
          automaton.add_step(static_cast<uint8_t>('0' + d), next);
        } else if (place <= scale) {
          automaton.add_step(static_cast<uint8_t>('0' + d), behind(place, next));
        } else if (d == 0) {
          automaton.add_step('0', m * place + remainder);
        }
      }
      if (place == 0) automaton.add_step('.', behind(0, remainder));
    }
  }
  const RegexId multiples = pool_.automaton(std::move(automaton), 0);
  return text_.both(text_.then(pool_.repeat(pool_.literal("-"), 0, 1), multiples), plain_);
}

}  // namespace cairn::grammar
