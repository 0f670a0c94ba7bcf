#include "kernels/cpu/rows/moe_route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/cpu/test_support.h"

namespace cairn::kernels::cpu {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

class RouteTest : public ::testing::TestWithParam<Isa> {
 protected:
  static Routed route(const RouteParams& params, const std::vector<float>& logits) {
    Routed routed{std::vector<int32_t>(params.used), std::vector<float>(params.used)};
    std::vector<float> working(static_cast<size_t>(route_floats(params)));
    route_row(*GetParam().rows, params, logits.data(), working.data(), routed.ids.data(), routed.weights.data());
    return routed;
  }
};
INSTANTIATE_TEST_SUITE_P(Isas, RouteTest, ::testing::ValuesIn(isas_under_test()), isa_test_name);

TEST_P(RouteTest, WeightsFollowTheNamedScoreFunction) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits = random.normals(12, 8);
    logits[3] = 60;
    for (const RouteScore score : {RouteScore::kSigmoid, RouteScore::kSqrtSoftplus}) {
      const Routed routed = route({.experts = 12, .used = 12, .score = score}, logits);
      for (size_t j = 0; j < 12; ++j) {
        const double logit = logits[routed.ids[j]];
        const double truth =
            score == RouteScore::kSigmoid ? 1 / (1 + std::exp(-logit)) : std::sqrt(std::log1p(std::exp(logit)));
        EXPECT_NEAR(routed.weights[j], truth, 1e-6 * truth);
        if (j > 0) {
          EXPECT_LE(routed.weights[j], routed.weights[j - 1]);
        }
      }
    }
  }
}

// With a jitter of 0.1 logits are near 5 from 4 on, and near 4.2 from 3.36 on.
TEST_P(RouteTest, ASparseMixerWeighsEachOfItsExpertsAmongThoseNearIt) {
  const std::vector<float> logits = {3.1f, 5, 0, 4.2f, -6, 3.5f};
  const Routed routed = route({.experts = 6, .used = 2, .score = RouteScore::kSparseMixer, .jitter = 0.1f}, logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(routed.weights[0], 1 / (1 + std::exp(-0.8)), 1e-6);
  EXPECT_NEAR(routed.weights[1], 1 / (1 + std::exp(-0.7)), 1e-6);
}

// The distance is measured against the larger of the best logit and the other's magnitude: -6 is near 1 and near 0.
TEST_P(RouteTest, ASparseMixerMeasuresDistancesAgainstTheLargerMagnitude) {
  const RouteParams params{.experts = 3, .used = 2, .score = RouteScore::kSparseMixer, .jitter = 0.6f};
  const Routed routed = route(params, {0, -6, 1});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{2, 0}));
  EXPECT_NEAR(routed.weights[0], 1 / (1 + std::exp(-1.0) + std::exp(-7.0)), 1e-6);
  EXPECT_NEAR(routed.weights[1], 1 / (1 + std::exp(-6.0)), 1e-6);
  for (const float weight : route(params, {0, 0, 0}).weights) EXPECT_GT(weight, 0);
}

TEST_P(RouteTest, TheBiasChangesTheChoiceButNotTheWeights) {
  const std::vector<float> logits = {3, 1, 0, -1};
  const std::vector<float> bias = {-5, 0, 0, 2};
  const Routed routed =
      route({.experts = 4, .used = 2, .scale = 2, .score = RouteScore::kSigmoid, .bias = bias.data()}, logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{3, 1}));
  EXPECT_NEAR(routed.weights[0], 2 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(routed.weights[1], 2 / (1 + std::exp(-1.0)), 1e-6);
}

TEST_P(RouteTest, ExpertsComeFromTheGroupsWhoseTwoBestAreLargest) {
  Random random(2);
  constexpr int32_t kExperts = 24, kGroups = 6, kSize = 4, kGroupsUsed = 2, kUsed = 5;
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> logits = random.normals(kExperts, 2), bias = random.normals(kExperts, 0.3f);
    const Routed routed = route({.experts = kExperts,
                                 .used = kUsed,
                                 .score = RouteScore::kSigmoid,
                                 .bias = bias.data(),
                                 .groups = kGroups,
                                 .groups_used = kGroupsUsed},
                                logits);
    std::vector<double> ranks, groups;
    for (int32_t e = 0; e < kExperts; ++e) ranks.push_back(1 / (1 + std::exp(-double{logits[e]})) + bias[e]);
    for (int32_t g = 0; g < kGroups; ++g) {
      std::vector<double> of_group(ranks.begin() + g * kSize, ranks.begin() + (g + 1) * kSize);
      std::ranges::sort(of_group, std::greater());
      groups.push_back(of_group[0] + of_group[1]);
    }
    std::vector<int32_t> order(kGroups);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int32_t a, int32_t b) { return groups[a] > groups[b]; });
    std::vector<int32_t> truth;
    for (int32_t e = 0; e < kExperts; ++e) {
      if (std::find(order.begin(), order.begin() + kGroupsUsed, e / kSize) != order.begin() + kGroupsUsed) {
        truth.push_back(e);
      }
    }
    std::ranges::sort(truth, [&](int32_t a, int32_t b) { return ranks[a] > ranks[b]; });
    truth.resize(kUsed);
    EXPECT_EQ(routed.ids, truth) << "round " << round;
  }
}

TEST_P(RouteTest, GroupsMayBeRankedByTheirBest) {
  // The best expert is in the second group; the two with the largest sum are in the first.
  const std::vector<float> logits = {2.5f, 2.5f, 3, -4};
  RouteParams params{.experts = 4, .used = 2, .groups = 2, .groups_used = 1};
  EXPECT_EQ(route(params, logits).ids, (std::vector<int32_t>{0, 1}));
  params.groups_by_best = true;
  EXPECT_EQ(route(params, logits).ids, (std::vector<int32_t>{2, 3}));
}

TEST_P(RouteTest, TheSumOfWeightsIsBoundedBelow) {
  const std::vector<float> logits = {-30, -30};
  RouteParams params{.experts = 2, .used = 2, .renormalise = true, .score = RouteScore::kSigmoid, .sum_least = 0.5f};
  EXPECT_NEAR(route(params, logits).weights[0], std::exp(-30.0) / 0.5, 1e-17);
  params.sum_least = 0;
  EXPECT_NEAR(route(params, logits).weights[0], 0.5, 1e-6);
}

TEST_P(RouteTest, ChoosesDifferentExpertsEvenIfLogitsAreNan) {
  const std::vector<float> logits(12, std::numeric_limits<float>::quiet_NaN());
  const Routed routed =
      route({.experts = 12, .used = 6, .score = RouteScore::kSigmoid, .groups = 4, .groups_used = 2}, logits);
  const std::set<int32_t> different(routed.ids.begin(), routed.ids.end());
  EXPECT_EQ(different.size(), 6u);
  EXPECT_EQ(*different.rbegin(), 5);
}

}  // namespace
}  // namespace cairn::kernels::cpu
