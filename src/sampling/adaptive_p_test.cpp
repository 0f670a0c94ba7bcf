// Adaptive-p: tokens near a target probability are favoured, and their average is held there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "sampling/random.h"
#include "sampling/sampler.h"

namespace cairn::sampling {
namespace {

struct WeighedToken {
  int32_t token;
  double logit;
  double p = 0;
};

void set_probabilities(std::vector<WeighedToken>& tokens) {
  double largest = tokens.front().logit;
  for (const WeighedToken& each : tokens) largest = std::max(largest, each.logit);
  double sum = 0;
  for (WeighedToken& each : tokens) sum += each.p = std::exp(each.logit - largest);
  for (WeighedToken& each : tokens) each.p /= sum;
}

// Adaptive-p as llama.cpp's pull request 17927 has it, with the sampler's own random numbers and order of candidates.
struct AdaptiveReference {
  double target, decay, sum, weight;
  AdaptiveReference(double target_p, double decay_p)
      : target(target_p), decay(decay_p), sum(target_p / (1 - decay_p)), weight(1 / (1 - decay_p)) {}

  /// `entries` have their probabilities and are in the sampler's order.
  int32_t sample(const std::vector<WeighedToken>& entries, double random) {
    const double adapted = std::clamp(2 * target - sum / weight, 0.0, 1.0);
    std::vector<WeighedToken> changed = entries;
    for (WeighedToken& entry : changed) {
      const double distance = std::abs(entry.p - adapted) / 0.3;
      entry.logit = 5 - 10 * distance * distance / (1 + distance);
    }
    set_probabilities(changed);
    double below = 0;
    for (size_t k = 0; k < changed.size(); ++k) {
      below += changed[k].p;
      if (below <= random && k + 1 < changed.size()) continue;
      sum = entries[k].p + decay * sum;
      weight = 1 + decay * weight;
      return changed[k].token;
    }
    return -1;
  }
};

std::vector<float> bell_logits(std::mt19937& random, size_t count, double deviation) {
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(std::normal_distribution(0.0, deviation)(random));
  return logits;
}

TEST(AdaptiveP, FollowsItsDescription) {
  std::mt19937 random(3);
  SamplingParams params;
  params.adaptive_target = 0.3f;
  params.adaptive_decay = 0.8f;
  params.temperature = 0.7f;
  params.seed = 9;
  Sampler sampler(params, 50, {});
  AdaptiveReference reference(params.adaptive_target, params.adaptive_decay);
  for (uint64_t i = 0; i < 500; ++i) {
    const std::vector<float> logits = bell_logits(random, 50, 1.5);
    std::vector<WeighedToken> entries;
    for (size_t k = 0; k < logits.size(); ++k)
      entries.push_back({static_cast<int32_t>(k), logits[k] / static_cast<double>(params.temperature)});
    set_probabilities(entries);
    ASSERT_EQ(index(sampler.sample(logits).token), reference.sample(entries, uniform(params.seed, i))) << i;
  }
}

TEST(AdaptiveP, HoldsTheAverageProbabilityAtItsTarget) {
  for (const float target : {0.2f, 0.3f, 0.4f}) {
    std::mt19937 random(11);
    SamplingParams params;
    params.adaptive_target = target;
    params.min_p = 0.05f;
    params.seed = 1;
    Sampler sampler(params, 100, {});
    double sum = 0;
    constexpr int kTokens = 2'000;
    for (int i = 0; i < kTokens; ++i) {
      const std::vector<float> logits = bell_logits(random, 100, 3.0);
      SamplingParams plain = params;
      plain.adaptive_target = -1;
      const auto before = Sampler(plain, 100, {}).distribution(logits);
      const TokenId token = sampler.sample(logits).token;
      const auto chosen = std::ranges::find(before, token, &std::pair<TokenId, float>::first);
      ASSERT_NE(chosen, before.end());
      sum += chosen->second;
    }
    EXPECT_NEAR(sum / kTokens, target, 0.06);
  }
}

TEST(AdaptiveP, ActsLastWhereverItIsNamedAndOnlyIfItIs) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SamplingParams params;
  params.adaptive_target = 0.2f;
  params.top_k = 3;
  const auto last = Sampler(params, 4, {}).distribution(logits);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_NE(last[0].first, TokenId{0});  // the most likely token is far from the target
  params.steps = {SamplerStep::kAdaptiveP, SamplerStep::kTopK};
  EXPECT_EQ(Sampler(params, 4, {}).distribution(logits), last);
  params.steps = {SamplerStep::kTopK};
  EXPECT_NEAR(Sampler(params, 4, {}).distribution(logits)[0].second, 0.5 / 0.95, 1e-6);
  params.steps = {SamplerStep::kAdaptiveP};
  EXPECT_EQ(Sampler(params, 4, {}).distribution(logits).size(), 4U);
  params.adaptive_target = -1;
  EXPECT_NEAR(Sampler(params, 4, {}).distribution(logits)[0].second, 0.5, 1e-6);
}

TEST(AdaptiveP, LeavesOutWhatIsBannedAndReportsWhatItSampledFrom) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SamplingParams params;
  params.adaptive_target = 0.1f;
  params.logprobs = true;
  params.top_logprobs = 4;
  params.filtered_logprobs = true;
  Sampler sampler(params, 4, {});
  const auto expected = Sampler(params, 4, {}).distribution(logits);
  const Sampled sampled = sampler.sample(logits);
  const auto chosen = std::ranges::find(expected, sampled.token, &std::pair<TokenId, float>::first);
  EXPECT_NEAR(std::exp(sampled.logprob), chosen->second, 1e-6);
  const std::vector<TokenId> banned = {TokenId{2}, TokenId{3}};
  for (int i = 0; i < 50; ++i) EXPECT_LT(index(sampler.sample(logits, banned).token), 2);
}

}  // namespace
}  // namespace cairn::sampling
