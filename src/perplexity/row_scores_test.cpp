#include "perplexity/row_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "perplexity/statistics.h"

namespace cairn::perplexity {
namespace {

struct Comparison {
  double nll = 0;
  PositionScore score;
};

// Compares the logits `own` with a record made of the logits `base`.
Comparison compare(const std::vector<float>& own, const std::vector<float>& base, TokenId token) {
  const LogitsShape shape{.vocabulary = static_cast<int32_t>(base.size())};
  std::vector<std::byte> bytes(static_cast<size_t>(shape.record_bytes()));
  const LogSum base_sum = log_sum(base);
  encode_record(base, base_sum.largest, static_cast<float>(base_sum.log_sum), bytes);
  LogitsRecord record{.codes = std::span(bytes).subspan(8, base.size() * 2)};
  std::memcpy(&record.scale, bytes.data(), 4);
  std::memcpy(&record.least, bytes.data() + 4, 4);
  Comparison result;
  std::vector<float> block_max;
  const LogSum sum = log_sum(own);
  compare_row(own, sum, record, token, block_max, result.score);
  result.nll = negative_log_probability(own, sum, token);
  return result;
}

std::vector<float> logits_of(const std::vector<double>& probabilities, double shift) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + shift));
  return logits;
}

TEST(RowScores, ScoresOfAShortRowFollowTheFormula) {
  const std::vector<double> p = {0.5, 0.25, 0.125, 0.0625, 0.0625};
  const std::vector<double> q = {0.1, 0.6, 0.1, 0.15, 0.05};
  double divergence = 0;
  for (size_t i = 0; i < p.size(); ++i) divergence += p[i] * std::log(p[i] / q[i]);
  const auto [nll, score] = compare(logits_of(q, 3), logits_of(p, -20), TokenId{2});
  EXPECT_NEAR(nll, -std::log(0.1), 1e-6);
  EXPECT_NEAR(score.base_nll, -std::log(0.125), 2e-4);  // codes are 16 / 65,535 apart
  EXPECT_NEAR(score.divergence, divergence, 2e-4);
  EXPECT_FALSE(score.same_first);
  EXPECT_TRUE(compare(logits_of(p, 1), logits_of(p, 2), TokenId{0}).score.same_first);
  EXPECT_NEAR(compare(logits_of(p, 1), logits_of(p, 2), TokenId{0}).score.divergence, 0, 1e-4);
}

TEST(RowScores, ScoresOfALongRowWithTinyProbabilitiesFollowTheFormula) {
  std::vector<float> base, own;
  for (int i = 0; i < 1001; ++i) {
    base.push_back(static_cast<float>(10 * std::sin(i)));
    own.push_back(static_cast<float>(10 * std::sin(i) + 0.3 * std::cos(3 * i)));
  }
  base[17] = -40;  // far below the smallest log-probability that a code can express
  double base_total = 0, own_total = 0, divergence = 0;
  for (const float x : base) base_total += std::exp(x);
  for (const float x : own) own_total += std::exp(x);
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_p = base[i] - std::log(base_total);
    if (log_p > -16) divergence += std::exp(log_p) * (log_p - own[i] + std::log(own_total));
  }
  const auto [nll, score] = compare(own, base, TokenId{1000});
  EXPECT_NEAR(nll, std::log(own_total) - own[1000], 1e-6);
  EXPECT_NEAR(score.divergence, divergence, 1.3e-4);  // half the distance of two codes
}

TEST(RowScores, TheScoreOfARowWithNanOrInfinityIsNotFinite) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& row :
       {std::vector<float>{1, kNaN, 2}, {kNaN, kNaN, kNaN}, {1, -kInfinity, 2}, {1, kInfinity, 2}}) {
    EXPECT_FALSE(std::isfinite(negative_log_probability(row, log_sum(row), TokenId{1})));
  }
}

TEST(PerplexityStatistics, PerplexityErrorAndComparisonFollowTheirFormulas) {
  const std::vector<PositionScore> scores = {
      {.nll = 1, .base_nll = 1.5, .divergence = 0.1, .same_first = true},
      {.nll = 2, .base_nll = 1.5, .divergence = 0.4, .same_first = false},
      {.nll = 3, .base_nll = 3.0, .divergence = 0.2, .same_first = true},
      {.nll = 6, .base_nll = 6.0, .divergence = 0.9, .same_first = true},
  };
  const Estimate perplexity = perplexity_of(scores);
  EXPECT_NEAR(perplexity.value, std::exp(3.0), 1e-12);
  const double error = std::sqrt((4 + 1 + 0 + 9) / 3.0 / 4.0);  // standard error of the mean of 1, 2, 3 and 6
  EXPECT_NEAR(perplexity.error, std::exp(3.0) * error, 1e-12);

  const ModelComparison compared = compare_models(scores);
  EXPECT_NEAR(compared.base_perplexity.value, std::exp(3.0), 1e-12);
  EXPECT_NEAR(compared.log_perplexity_ratio.value, 0, 1e-12);
  EXPECT_NEAR(compared.log_perplexity_ratio.error, std::sqrt(0.5 / 3 / 4), 1e-12);
  EXPECT_NEAR(compared.perplexity_ratio.error, std::sqrt(0.5 / 3 / 4), 1e-12);
  EXPECT_NEAR(compared.correlation, 13.5 / std::sqrt(14.0 * 13.5), 1e-12);
  EXPECT_NEAR(compared.divergence.value, 0.4, 1e-12);
  EXPECT_NEAR(compared.divergence.error, std::sqrt((0.09 + 0 + 0.04 + 0.25) / 3 / 4), 1e-12);
  EXPECT_NEAR(compared.divergence_median, 0.3, 1e-12);
  EXPECT_NEAR(compared.divergence_p90, 0.4 + 0.7 * 0.5, 1e-12);
  EXPECT_EQ(compared.divergence_largest, 0.9);
  EXPECT_NEAR(compared.same_first.value, 0.75, 1e-12);
  EXPECT_NEAR(compared.same_first.error, std::sqrt(0.75 * 0.25 / 3), 1e-12);
  const double up = std::exp(-1) - std::exp(-1.5), down = std::exp(-2) - std::exp(-1.5);
  EXPECT_NEAR(compared.probability_change.value, (up + down) / 4, 1e-12);
  EXPECT_NEAR(compared.probability_change_rms.value, std::sqrt((up * up + down * down) / 4), 1e-12);
  EXPECT_GT(compared.probability_change_rms.error, 0);
}

}  // namespace
}  // namespace cairn::perplexity
