#include "perplexity/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cairn::perplexity {
namespace {

// Mean of value(score) and its standard error, in two passes: squaring the differences from the mean loses no digits.
template <class Value>
Estimate mean_of(std::span<const PositionScore> scores, Value value) {
  const auto count = static_cast<double>(scores.size());
  double sum = 0;
  for (const PositionScore& score : scores) sum += value(score);
  Estimate mean{.value = sum / count};
  if (scores.size() < 2) return mean;
  double squares = 0;
  for (const PositionScore& score : scores) {
    const double rest = value(score) - mean.value;
    squares += rest * rest;
  }
  mean.error = std::sqrt(squares / (count - 1) / count);
  return mean;
}

Estimate exponential(const Estimate& logarithm) {
  const double value = std::exp(logarithm.value);
  return {value, value * logarithm.error};
}

double correlation_of(std::span<const PositionScore> scores, double mean, double base_mean) {
  double both = 0, own = 0, base = 0;
  for (const PositionScore& score : scores) {
    const double x = score.nll - mean, y = score.base_nll - base_mean;
    both += x * y;
    own += x * x;
    base += y * y;
  }
  return own > 0 && base > 0 ? both / std::sqrt(own * base) : 0;
}

// A quantile, interpolated linearly between the nearest two of the sorted values.
double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[above];
}

}  // namespace

Estimate perplexity_of(std::span<const PositionScore> scores) {
  return exponential(mean_of(scores, [](const PositionScore& score) { return score.nll; }));
}

ModelComparison compare_models(std::span<const PositionScore> scores) {
  const Estimate own = mean_of(scores, [](const PositionScore& score) { return score.nll; });
  const Estimate base = mean_of(scores, [](const PositionScore& score) { return score.base_nll; });
  ModelComparison result;
  result.base_perplexity = exponential(base);
  result.log_perplexity_ratio = mean_of(scores, [](const PositionScore& score) { return score.nll - score.base_nll; });
  result.perplexity_ratio = exponential(result.log_perplexity_ratio);
  result.correlation = correlation_of(scores, own.value, base.value);

  result.divergence = mean_of(scores, [](const PositionScore& score) { return score.divergence; });
  std::vector<double> sorted;
  sorted.reserve(scores.size());
  for (const PositionScore& score : scores) sorted.push_back(score.divergence);
  std::ranges::sort(sorted);
  result.divergence_median = quantile(sorted, 0.5);
  result.divergence_p90 = quantile(sorted, 0.9);
  result.divergence_p95 = quantile(sorted, 0.95);
  result.divergence_p99 = quantile(sorted, 0.99);
  result.divergence_largest = sorted.back();

  result.same_first = mean_of(scores, [](const PositionScore& score) { return score.same_first ? 1.0 : 0.0; });
  result.probability_change = mean_of(scores, [](const PositionScore& score) { return score.probability_change(); });
  const Estimate square = mean_of(
      scores, [](const PositionScore& score) { return score.probability_change() * score.probability_change(); });
  const double root = std::sqrt(square.value);
  result.probability_change_rms = {root, root > 0 ? square.error / (2 * root) : 0};
  return result;
}

}  // namespace cairn::perplexity
