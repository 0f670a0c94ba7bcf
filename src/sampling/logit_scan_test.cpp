#include "sampling/logit_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "sampling/block_loops.h"
#include "sampling/random.h"

namespace cairn::sampling {
namespace {

TEST(Random, MatchesThePublishedSplitMix64) {
  // The first output of the published generator started at 0.
  EXPECT_EQ(mix_bits(0x9E3779B97F4A7C15u), 0xE220A8397B1DCDAFu);
}

TEST(Random, NumbersAreUniformAndDifferBySeedAndIndex) {
  std::vector<double> seen;
  double sum = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (uint64_t i = 0; i < 100; ++i) {
      seen.push_back(uniform(seed, i));
      ASSERT_GE(seen.back(), 0.0);
      ASSERT_LT(seen.back(), 1.0);
      sum += seen.back();
    }
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.01);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

TEST(LogitScan, TheMaximumIsFoundAtEveryPositionAndNanIsIgnored) {
  for (const size_t size : {1u, 15u, 16u, 17u, 255u, 256u, 257u, 700u}) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> logits(size, -3);
      logits[at] = 2;
      if (at + 1 < size) logits[at + 1] = NAN;
      std::vector<float> block_max;
      ASSERT_EQ(scan_maxima(logits, block_max), 2);
      ASSERT_EQ(block_max.size(), scan_blocks(size));
      ASSERT_EQ(index(scan_first(logits, block_max, 2)), static_cast<int32_t>(at));
    }
  }
}

TEST(LogitScan, RowsWithoutALogitHaveNoMaximum) {
  std::vector<float> block_max;
  const std::vector<float> logits = {NAN, -INFINITY, NAN};
  EXPECT_EQ(scan_maxima(logits, block_max), -INFINITY);
  EXPECT_EQ(scan_first(logits, block_max, -INFINITY), kNoToken);
}

TEST(LogitScan, WeightsAreTheExponentialsOfLogits) {
  std::vector<float> logits = {0, -0.0f, -1e-30f, -87, -89.9f, -90.1f, -1e30f, -INFINITY, NAN};
  for (float x = 0; x > -87.3f; x -= 0.0137f) logits.push_back(x);
  std::vector<float> weights;
  std::vector<double> block_sum;
  const double total = scan_weights(logits, 0, 1, weights, block_sum);
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = logits[i] > -87.5f ? std::exp(static_cast<double>(logits[i])) : 0;
    EXPECT_NEAR(weights[i], expected, 3e-7 * expected) << logits[i];
    sum += weights[i];
  }
  EXPECT_NEAR(total, sum, 1e-12 * sum);
  EXPECT_NEAR(block_sum.front() + block_sum.back(), total, total);
}

// Sampled tokens do not depend on the processor's vector width.
TEST(LogitScan, EveryVectorWidthGivesTheSameBits) {
  const std::span<const BlockLoops> usable = usable_block_loops();
  ASSERT_EQ(usable.back().name, "plain");
  if (usable.size() == 1) GTEST_SKIP() << "there is one";
  std::mt19937 random(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> logits(1 + random() % kScanBlock);
    for (float& logit : logits) {
      logit = static_cast<float>(static_cast<double>(random()) * 1e-7 - 200);
      if (random() % 20 == 0) logit = random() % 2 ? NAN : -INFINITY;
    }
    const float largest = usable.back().largest(logits.data(), logits.size());
    if (largest == -INFINITY) continue;
    const float temperature = round % 3 == 0 ? 1.0f : static_cast<float>(1 + random() % 200) / 100;
    std::vector<float> expected(logits.size()), weights(logits.size());
    const double sum = usable.back().weigh(logits.data(), logits.size(), largest, temperature, expected.data());
    for (const BlockLoops& loops : usable) {
      SCOPED_TRACE(loops.name);
      ASSERT_EQ(loops.largest(logits.data(), logits.size()), largest);
      ASSERT_EQ(loops.weigh(logits.data(), logits.size(), largest, temperature, weights.data()), sum);
      ASSERT_EQ(weights, expected);
    }
  }
}

TEST(LogitScan, WeightsAreFiniteAtExtremeTemperatures) {
  const std::vector<float> logits = {3e38f, -3e38f, 3e38f, 1};
  std::vector<float> weights;
  std::vector<double> block_sum;
  for (const float temperature : {std::numeric_limits<float>::denorm_min(), 1e-30f, 2.0f}) {
    EXPECT_EQ(scan_weights(logits, 3e38f, temperature, weights, block_sum), 2.0);
    EXPECT_EQ(weights, (std::vector<float>{1, 0, 1, 0}));
  }
}

TEST(LogitScan, SelectionsAgreeWithSorting) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<float> logits(1 + random() % 3'000);
    // Few different values, so that ties are common; some rows rise, so that the threshold rises as often as possible.
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(random() % 200) + (round % 2 ? static_cast<float>(i) : 0.0f);
      if (random() % 50 == 0) logits[i] = random() % 2 ? NAN : -INFINITY;
    }
    std::vector<Candidate> expected;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > -INFINITY) expected.push_back({TokenId{static_cast<int32_t>(i)}, logits[i], 0});
    }
    std::sort(expected.begin(), expected.end(), more_likely);
    std::vector<float> block_max;
    scan_maxima(logits, block_max);

    const size_t k = 1 + random() % 100;
    std::vector<Candidate> found;
    select_top_k(logits, block_max, k, found);
    ASSERT_EQ(found.size(), std::min(k, expected.size()));
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].token, expected[i].token);

    const float threshold = static_cast<float>(random() % 300);
    select_at_least(logits, block_max, threshold, found);
    std::sort(found.begin(), found.end(), more_likely);
    std::erase_if(expected, [&](const Candidate& candidate) { return candidate.logit < threshold; });
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].token, expected[i].token);
  }
}

}  // namespace
}  // namespace cairn::sampling
