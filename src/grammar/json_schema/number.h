/// JSON numbers as regular expressions over their text.
///
/// Sets of numbers range over the plain spellings: an optional minus, at most kIntegerDigitsMax digits, and perhaps a
/// point with at most kFractionDigitsMax digits. Only the set of all numbers has spellings with an exponent, which
/// would carry a value past a bound.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "grammar/json_schema/json_text.h"

namespace cairn::grammar {

/// Numbers may have no more digits: a model that has begun to write digits must come to an end.
inline constexpr uint32_t kIntegerDigitsMax = 40;
inline constexpr uint32_t kFractionDigitsMax = 40;
inline constexpr uint32_t kExponentDigitsMax = 3;
/// The largest divisor, in units of its last decimal place: the automaton of remainders has as many states.
inline constexpr uint64_t kDivisorMax = 100'000;
/// States of a divisor: of itself times its places. All of a grammar have kAutomatonStatesMax together.
inline constexpr uint64_t kRemaindersMax = 1'000'000;

/// A decimal fraction: digits before and behind the point, without zeros that change nothing.
struct Decimal {
  bool negative = false;
  std::string integer = "0";
  std::string fraction;

  bool zero() const { return integer == "0" && fraction.empty(); }
  bool whole() const { return fraction.empty(); }
  /// The number as it is written without an exponent.
  std::string text() const;
  bool operator==(const Decimal&) const = default;
};

/// The exact value of a JSON number's text. Nullopt: it has more digits than the limits above.
std::optional<Decimal> read_decimal(std::string_view text);

/// The smallest number that is a multiple of both. Nullopt: it is over kDivisorMax in its last place, as one of them
/// may be.
std::optional<Decimal> common_multiple(const Decimal& a, const Decimal& b);

class NumberText {
 public:
  explicit NumberText(JsonText& text);

  RegexId any() const { return any_; }
  RegexId plain() const { return plain_; }
  /// Numbers without a fraction; `1.0` is one.
  RegexId integers() const { return integers_; }
  /// Plain numbers without zeros behind the point that change nothing, and without -0: one text for a value.
  RegexId shortest();
  /// Integers without a point.
  RegexId written_integers() const { return written_integers_; }
  /// Plain numbers >= `bound`, or > where it is exclusive; >= 0 also with an exponent.
  RegexId at_least(const Decimal& bound, bool exclusive);
  RegexId at_most(const Decimal& bound, bool exclusive);
  RegexId equal(const Decimal& value);
  /// Errors: kTooLarge.
  Result<RegexId> multiple_of(const Decimal& divisor);

 private:
  enum class Side { kAbove, kBelow };
  RegexId digits(uint32_t min, uint32_t max);
  RegexId digit(char first, char last);
  /// Magnitudes above or below `bound`'s, without it.
  RegexId magnitude(const Decimal& bound, Side side);
  RegexId magnitude_equal(const Decimal& value);
  Result<RegexId> make_multiples(const Decimal& divisor);
  RegexId fraction_beyond(std::string_view fraction, Side side);
  RegexId signed_compare(const Decimal& bound, bool exclusive, Side side);

  JsonText& text_;
  RegexPool& pool_;
  std::map<std::string, RegexId> multiples_;  // by divisor
  RegexId any_{}, plain_{}, integers_{}, written_integers_{}, fraction_{}, magnitude_{}, zero_fraction_{}, exponent_{};
};

}  // namespace cairn::grammar
