#include "evaluation/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace cairn::evaluation {
namespace {

constexpr double kNormal95 = 1.959963984540054;  // the 97.5 % point of the normal distribution
constexpr double kTail = 0.025;

}  // namespace

Interval wilson_interval(int64_t right, int64_t all) {
  const auto n = static_cast<double>(all);
  const double share = static_cast<double>(right) / n;
  const double z2 = kNormal95 * kNormal95;
  const double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormal95 / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {right == 0 ? 0 : middle - half, right == all ? 1 : middle + half};
}

double sign_test(int64_t one, int64_t other) {
  const int64_t coins = one + other;
  const int64_t fewer = std::min(one, other);
  // The terms are binomial(n, k) / 2^n, by their logarithms, which do not overflow.
  double tail = 0;
  for (int64_t k = 0; k <= fewer; ++k) {
    const double ways = std::lgamma(static_cast<double>(coins) + 1) - std::lgamma(static_cast<double>(k) + 1) -
                        std::lgamma(static_cast<double>(coins - k) + 1);
    tail += std::exp(ways - static_cast<double>(coins) * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

Interval bootstrap_interval(std::span<const int8_t> differences, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> means;
  means.reserve(kResamples);
  for (int32_t i = 0; i < kResamples; ++i) {
    int64_t sum = 0;
    // The remainder favours no element by more than one in 2^40, and is the same with every library.
    for (size_t draw = 0; draw < differences.size(); ++draw) sum += differences[random() % differences.size()];
    means.push_back(static_cast<double>(sum) / static_cast<double>(differences.size()));
  }
  std::ranges::sort(means);
  const auto at = [&](double share) { return means[static_cast<size_t>(share * (kResamples - 1))]; };
  return {at(kTail), at(1 - kTail)};
}

}  // namespace cairn::evaluation
