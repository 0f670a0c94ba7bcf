/// How sure shares and differences of graded answers are.
#pragma once

#include <cstdint>
#include <span>

namespace cairn::evaluation {

struct Interval {
  double low = 0;
  double high = 0;
};

/// The 95 % interval of a share, `right` of `all` > 0 (Wilson 1927, without a correction for continuity).
Interval wilson_interval(int64_t right, int64_t all);

/// The two-sided p of the exact sign test: the chance that of `one` + `other` fair coins as many or more lie on one
/// side as on the larger of the two sides here; 1 at most, and 1 without coins.
double sign_test(int64_t one, int64_t other);

inline constexpr int32_t kResamples = 10'000;

/// The 95 % interval of the mean of `differences`, which are -1, 0 or 1 each, at least one: the percentiles of
/// kResamples means of as many draws with replacement (Efron 1979). The same seed gives the same interval.
Interval bootstrap_interval(std::span<const int8_t> differences, uint64_t seed);

}  // namespace cairn::evaluation
