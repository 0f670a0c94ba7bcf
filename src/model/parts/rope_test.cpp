#include "model/parts/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace cairn::model {
namespace {

RopeParams params(RopeScaling scaling, double factor) {
  RopeParams result;
  result.dims = 32;
  result.scaling = scaling;
  result.factor = factor;
  result.original_context = 64;
  return result;
}

TEST(RopeTest, FrequenciesFallFromOneToNearlyTheInverseBase) {
  const auto frequencies = rope_frequencies(params(RopeScaling::kNone, 4), {});
  ASSERT_EQ(frequencies.size(), 16u);
  EXPECT_DOUBLE_EQ(frequencies[0], 1);
  EXPECT_DOUBLE_EQ(frequencies[8], 0.01);
  EXPECT_DOUBLE_EQ(frequencies[15], std::pow(10'000, -15.0 / 16));
}

TEST(RopeTest, LinearDividesEveryFrequency) {
  const auto plain = rope_frequencies(params(RopeScaling::kNone, 4), {});
  const auto scaled = rope_frequencies(params(RopeScaling::kLinear, 4), {});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4);
  EXPECT_EQ(rope_magnitude(params(RopeScaling::kLinear, 4)), 1);
}

TEST(RopeTest, YarnKeepsFastPairsAndStretchesSlowOnes) {
  const auto plain = rope_frequencies(params(RopeScaling::kNone, 4), {});
  const auto scaled = rope_frequencies(params(RopeScaling::kYarn, 4), {});
  // 64 positions are 64 / (2 pi) = 10.2 rotations of the first pair; a pair with one rotation is number
  // 32 ln(10.2) / (2 ln 10000) = 4.03, so the ramp ends at 5. It begins at 0, as no pair rotates 32 times.
  EXPECT_DOUBLE_EQ(scaled[0], plain[0]);
  for (int i = 1; i < 5; ++i) {
    const double kept = 1 - i / 5.0;
    EXPECT_DOUBLE_EQ(scaled[i], plain[i] * kept + plain[i] / 4 * (1 - kept)) << i;
  }
  for (int i = 5; i < 16; ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4) << i;
}

TEST(RopeTest, YarnWithoutTruncationHasARampBetweenFractionsOfPairs) {
  // gpt-oss.
  RopeParams yarn = params(RopeScaling::kYarn, 32);
  yarn.dims = 64;
  yarn.base = 150'000;
  yarn.original_context = 4'096;
  const auto truncated = rope_frequencies(yarn, {});
  yarn.truncates = false;
  const auto scaled = rope_frequencies(yarn, {});
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(150'000, -i / 32.0);
    const auto between = [&](double begin, double end) {
      const double kept = 1 - std::clamp((i - begin) / (end - begin), 0.0, 1.0);
      return plain * kept + plain / 32 * (1 - kept);
    };
    EXPECT_NEAR(scaled[i], between(8.0928, 17.3980), 1e-5 * plain) << i;
    EXPECT_NEAR(truncated[i], between(8, 18), 1e-12) << i;
  }
}

TEST(RopeTest, YarnMagnitude) {
  RopeParams yarn = params(RopeScaling::kYarn, 4);
  EXPECT_DOUBLE_EQ(rope_magnitude(yarn), 1 + 0.1 * std::log(4));
  yarn.attention_factor = 2;
  EXPECT_DOUBLE_EQ(rope_magnitude(yarn), 2 * (1 + 0.1 * std::log(4)));
  yarn.log_multiplier = 1;
  EXPECT_DOUBLE_EQ(rope_magnitude(yarn), 2);
  yarn.extrapolation = 0;
  yarn.log_multiplier = 0;
  EXPECT_DOUBLE_EQ(rope_magnitude(yarn), 2);
}

TEST(RopeTest, FactorsDivide) {
  std::vector<float> factors(16, 1);
  factors[3] = 8;
  const auto plain = rope_frequencies(params(RopeScaling::kNone, 1), {});
  const auto scaled = rope_frequencies(params(RopeScaling::kLongRope, 1), factors);
  EXPECT_DOUBLE_EQ(scaled[2], plain[2]);
  EXPECT_DOUBLE_EQ(scaled[3], plain[3] / 8);
}

}  // namespace
}  // namespace cairn::model
