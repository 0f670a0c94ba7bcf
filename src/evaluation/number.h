/// Numbers as people and models write them, read exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::evaluation {

/// A fraction in lowest terms with a positive denominator, so that equal numbers are equal values: 0.5, 1/2 and 50e-2.
struct ExactNumber {
  int64_t numerator = 0;
  int64_t denominator = 1;

  bool operator==(const ExactNumber&) const = default;
  /// "42", "-7/3"
  std::string text() const;
};

/// A number that was found, and where in the text it ends.
struct FoundNumber {
  std::optional<ExactNumber> value;  ///< nothing: its numerator or its denominator does not fit in 63 bits
  size_t begin = 0;
  size_t end = 0;
};

/// The first number at or behind `from`. Nothing: there is none.
///
/// A number may have a sign (+, - or U+2212, not directly behind a letter or a digit), thousands in groups of three
/// after commas, underscores or spaces of any width, decimals behind a point (or behind a comma that begins no group of
/// three), a power of ten (1.5e3, 1.5 × 10^3, 1.5 \times 10^{3}), and be a fraction of two such numbers (3/4,
/// \frac{3}{4}, with a whole number before it: 1 3/4). What stands behind it, units and the percent sign among it, is
/// not part of it. Digits within a word ("H2O", "x1") are no number.
std::optional<FoundNumber> find_number(std::string_view text, size_t from = 0);
/// The last one. Nothing: there is none, or it does not fit. Takes linear time.
std::optional<ExactNumber> last_number(std::string_view text);

}  // namespace cairn::evaluation
