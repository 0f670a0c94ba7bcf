#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

namespace cairn::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Distribution = std::vector<std::pair<int32_t, double>>;  // token and probability, most likely first

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  logits.reserve(probabilities.size());
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<TokenId> tokens(std::initializer_list<int32_t> ids) {
  std::vector<TokenId> result;
  for (const int32_t id : ids) result.push_back(TokenId{id});
  return result;
}

Distribution distribution_of(const SamplingParams& params, const std::vector<float>& logits,
                             const std::vector<TokenId>& prompt = {}) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()), prompt);
  Distribution result;
  for (const auto& [token, probability] : sampler.distribution(logits)) result.emplace_back(index(token), probability);
  return result;
}

void expect_near(const Distribution& actual, const Distribution& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(actual[i].first, expected[i].first) << what << ", rank " << i;
    EXPECT_NEAR(actual[i].second, expected[i].second, 1e-6) << what << ", rank " << i;
  }
}

struct Case {
  const char* what;
  void (*set)(SamplingParams&);
  Distribution expected;
};

TEST(Sampler, EveryFilterGivesItsDistributionAloneAndInOrder) {
  // Probabilities 0.4, 0.3, 0.2, 0.1. Their entropy is 1.2799; surprises are 0.9163, 1.2040, 1.6094, 2.3026; so the
  // most typical token is 1, then 2 (0.3296 away), 0 (0.3636), 3 (1.0227).
  const std::vector<float> logits = logits_of({0.4, 0.3, 0.2, 0.1});
  const Distribution all = {{0, 0.4}, {1, 0.3}, {2, 0.2}, {3, 0.1}};
  const Distribution three = {{0, 4 / 9.}, {1, 3 / 9.}, {2, 2 / 9.}};
  const Distribution two = {{0, 4 / 7.}, {1, 3 / 7.}};
  const Distribution one = {{0, 1.}};
  const Distribution typical_two = {{1, 0.6}, {2, 0.4}};
  const double roots = std::sqrt(0.4) + std::sqrt(0.3) + std::sqrt(0.2) + std::sqrt(0.1);
  using P = SamplingParams;
  const std::vector<Case> cases = {
      {"defaults", [](P&) {}, all},
      {"top_k 1", [](P& p) { p.top_k = 1; }, one},
      {"top_k 2", [](P& p) { p.top_k = 2; }, two},
      {"top_k of the whole vocabulary", [](P& p) { p.top_k = 4; }, all},
      {"top_k above it", [](P& p) { p.top_k = 2'000'000'000; }, all},
      {"top_p below the first", [](P& p) { p.top_p = 1e-9f; }, one},
      {"top_p on the first", [](P& p) { p.top_p = 0.4f; }, one},
      {"top_p past the first", [](P& p) { p.top_p = 0.41f; }, two},
      {"top_p on a boundary", [](P& p) { p.top_p = 0.7f; }, two},
      {"top_p past it", [](P& p) { p.top_p = 0.71f; }, three},
      {"top_p on the last boundary", [](P& p) { p.top_p = 0.9f; }, three},
      {"top_p nearly 1", [](P& p) { p.top_p = 0.9999f; }, all},
      {"min_p on a boundary", [](P& p) { p.min_p = 0.5f; }, three},
      {"min_p past it", [](P& p) { p.min_p = 0.51f; }, two},
      {"min_p on the least likely", [](P& p) { p.min_p = 0.25f; }, all},
      {"min_p nearly 1", [](P& p) { p.min_p = 0.999f; }, one},
      {"min_p 1", [](P& p) { p.min_p = 1; }, one},
      {"top_p 0", [](P& p) { p.top_p = 0; }, one},
      {"typical_p within the first", [](P& p) { p.typical_p = 0.01f; }, {{1, 1.}}},
      {"typical_p on the first", [](P& p) { p.typical_p = 0.3f; }, {{1, 1.}}},
      {"typical_p past it", [](P& p) { p.typical_p = 0.31f; }, typical_two},
      {"typical_p on a boundary", [](P& p) { p.typical_p = 0.5f; }, typical_two},
      {"typical_p past that", [](P& p) { p.typical_p = 0.51f; }, three},
      {"typical_p on the last boundary", [](P& p) { p.typical_p = 0.9f; }, three},
      {"typical_p nearly 1", [](P& p) { p.typical_p = 0.95f; }, all},
      {"temperature 0", [](P& p) { p.temperature = 0; }, one},
      {"temperature 0.5 squares",
       [](P& p) { p.temperature = 0.5f; },
       {{0, 16 / 30.}, {1, 9 / 30.}, {2, 4 / 30.}, {3, 1 / 30.}}},
      {"temperature 2 takes roots",
       [](P& p) { p.temperature = 2; },
       {{0, std::sqrt(0.4) / roots},
        {1, std::sqrt(0.3) / roots},
        {2, std::sqrt(0.2) / roots},
        {3, std::sqrt(0.1) / roots}}},
      {"a temperature next to 0", [](P& p) { p.temperature = 1e-40f; }, {{0, 1.}, {1, 0.}, {2, 0.}, {3, 0.}}},
      // At temperature 0.5 the first token alone would have 0.53, where top_p would stop.
      {"top_p is before temperature",
       [](P& p) { p.top_p = 0.5f, p.temperature = 0.5f; },
       {{0, 16 / 25.}, {1, 9 / 25.}}},
      {"min_p is before temperature",
       [](P& p) { p.min_p = 0.5f, p.temperature = 0.5f; },
       {{0, 16 / 29.}, {1, 9 / 29.}, {2, 4 / 29.}}},
      // Among three tokens the first two have 7/9 = 0.778; among all four only 0.7.
      {"top_p sees what top_k left", [](P& p) { p.top_k = 3, p.top_p = 0.75f; }, two},
      {"top_p sees what top_k left, past it", [](P& p) { p.top_k = 3, p.top_p = 0.78f; }, three},
      // Among the first two, the entropy is 0.6829 and the surprises are 0.5596 and 0.8473: the first is the more
      // typical.
      {"typical_p sees what top_k left", [](P& p) { p.top_k = 2, p.typical_p = 0.3f; }, one},
      // Tokens {1, 2} at 0.6 and 0.4.
      {"top_p sees what typical_p left", [](P& p) { p.typical_p = 0.5f, p.top_p = 0.6f; }, {{1, 1.}}},
      {"min_p sees what typical_p left", [](P& p) { p.typical_p = 0.5f, p.min_p = 0.66f; }, typical_two},
      {"min_p sees what typical_p left, past it", [](P& p) { p.typical_p = 0.5f, p.min_p = 0.67f; }, {{1, 1.}}},
      {"top_p and min_p, the first is tighter", [](P& p) { p.top_p = 0.7f, p.min_p = 0.25f; }, two},
      {"top_p and min_p, the second is tighter", [](P& p) { p.top_p = 0.9f, p.min_p = 0.6f; }, two},
      {"the whole chain",
       [](P& p) { p.top_k = 3, p.typical_p = 0.95f, p.top_p = 0.95f, p.min_p = 0.6f, p.temperature = 0.5f; },
       {{0, 16 / 25.}, {1, 9 / 25.}}},
  };
  for (const Case& one_case : cases) {
    SamplingParams params;
    one_case.set(params);
    ASSERT_TRUE(params.validate(4).has_value()) << one_case.what;
    expect_near(distribution_of(params, logits), one_case.expected, one_case.what);
  }
}

TEST(Sampler, OfEqualProbabilitiesTheLowerIdComesFirst) {
  const std::vector<float> logits(6, 1.5f);
  SamplingParams params;
  params.top_k = 2;
  expect_near(distribution_of(params, logits), {{0, 0.5}, {1, 0.5}}, "top_k");
  params = {};
  params.top_p = 0.5f;
  expect_near(distribution_of(params, logits), {{0, 1 / 3.}, {1, 1 / 3.}, {2, 1 / 3.}}, "top_p");
  params = {};
  params.typical_p = 0.3f;
  expect_near(distribution_of(params, logits), {{0, 0.5}, {1, 0.5}}, "typical_p");
  params = {};
  params.temperature = 0;
  expect_near(distribution_of(params, logits), {{0, 1.}}, "greedy");
}

// The softmax of logits.
Distribution softmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  Distribution result;
  for (size_t i = 0; i < logits.size(); ++i) result.emplace_back(static_cast<int32_t>(i), std::exp(logits[i]) / sum);
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

TEST(Sampler, PenaltiesAndBiasChangeLogitsAsDocumented) {
  const std::vector<float> logits = {2, 1, -1, 0};
  const std::vector<TokenId> prompt = tokens({0, 0, 2});
  struct PenaltyCase {
    const char* what;
    void (*set)(SamplingParams&);
    std::vector<double> expected;  // logits
  };
  using P = SamplingParams;
  const std::vector<PenaltyCase> cases = {
      {"none", [](P&) {}, {2, 1, -1, 0}},
      {"repetition divides what is positive, multiplies what is not",
       [](P& p) { p.repetition_penalty = 2; },
       {1, 1, -2, 0}},
      {"repetition below 1 encourages", [](P& p) { p.repetition_penalty = 0.5f; }, {4, 1, -0.5, 0}},
      {"frequency counts", [](P& p) { p.frequency_penalty = 0.5f; }, {1, 1, -1.5, 0}},
      {"presence does not", [](P& p) { p.presence_penalty = 0.5f; }, {1.5, 1, -1.5, 0}},
      {"negative ones encourage", [](P& p) { p.frequency_penalty = -0.5f, p.presence_penalty = -1; }, {4, 1, 0.5, 0}},
      {"repetition comes before the others",
       [](P& p) { p.repetition_penalty = 2, p.frequency_penalty = 0.25f, p.presence_penalty = 0.5f; },
       {0, 1, -2.75, 0}},
      {"only the last one", [](P& p) { p.repetition_penalty = 2, p.penalty_last = 1; }, {2, 1, -2, 0}},
      {"only the last two", [](P& p) { p.frequency_penalty = 1, p.penalty_last = 2; }, {1, 1, -2, 0}},
      {"all", [](P& p) { p.frequency_penalty = 1, p.penalty_last = -1; }, {0, 1, -2, 0}},
      {"no window", [](P& p) { p.frequency_penalty = 1, p.penalty_last = 0; }, {2, 1, -1, 0}},
      {"bias adds", [](P& p) { p.logit_bias = {{TokenId{1}, 1.5f}, {TokenId{3}, -2.0f}}; }, {2, 2.5, -1, -2}},
      {"biases of one token add up",
       [](P& p) { p.logit_bias = {{TokenId{1}, 1.0f}, {TokenId{1}, 2.0f}}; },
       {2, 4, -1, 0}},
      {"bias comes before penalties",
       [](P& p) { p.logit_bias = {{TokenId{2}, 3.0f}}, p.repetition_penalty = 2; },
       {1, 1, 1, 0}},
      {"bias 100 decides", [](P& p) { p.logit_bias = {{TokenId{3}, 100.0f}}; }, {2, 1, -1, 100}},
      {"bias -100 forbids", [](P& p) { p.logit_bias = {{TokenId{0}, -100.0f}}; }, {-98, 1, -1, 0}},
  };
  for (const PenaltyCase& one_case : cases) {
    SamplingParams params;
    one_case.set(params);
    ASSERT_TRUE(params.validate(4).has_value()) << one_case.what;
    expect_near(distribution_of(params, logits, prompt), softmax(one_case.expected), one_case.what);
    params.temperature = 0;
    expect_near(distribution_of(params, logits, prompt), {{softmax(one_case.expected)[0].first, 1.}}, one_case.what);
  }
}

TEST(Sampler, PenaltiesApplyToTheLastTokensOfPromptAndAnswer) {
  const std::vector<float> logits = {1.0f, 0.9f, 0.8f, 0.7f};
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 1;
  params.penalty_last = 3;
  Sampler sampler(params, 4, tokens({3, 3}));
  std::vector<int32_t> answer;
  answer.reserve(8);
  for (int i = 0; i < 8; ++i) answer.push_back(index(sampler.sample(logits).token));
  // The last three tokens are excluded, so each token returns when it is the fourth last.
  EXPECT_EQ(answer, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3}));
}

TEST(Sampler, NanAndInfiniteLogitsHaveADefinedResult) {
  for (const bool top_k : {false, true}) {
    SamplingParams params;
    params.top_k = top_k ? 3 : 0;
    expect_near(distribution_of(params, {kNan, 1, -kInfinity, 1}), {{1, 0.5}, {3, 0.5}}, "NaN and -infinity are out");
    expect_near(distribution_of(params, {3, kInfinity, kNan, kInfinity}), {{1, 0.5}, {3, 0.5}}, "infinity is alone");
    EXPECT_TRUE(distribution_of(params, {kNan, -kInfinity, kNan}).empty());
    params.logit_bias = {{TokenId{1}, 100.0f}};
    expect_near(distribution_of(params, {1, -kInfinity}), {{0, 1.}}, "no bias brings back what is impossible");
  }
  for (const float temperature : {0.0f, 1.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    params.logprobs = true;
    params.top_logprobs = 3;
    const std::vector<float> none = {kNan, -kInfinity, kNan};
    Sampler sampler(params, 3, {});
    EXPECT_EQ(sampler.sample(none).token, kNoToken);
    const Sampled certain = sampler.sample(std::vector<float>{3, kInfinity, kNan});
    EXPECT_EQ(index(certain.token), 1);
    EXPECT_EQ(certain.logprob, 0);
    EXPECT_EQ(certain.top.size(), 1u);
  }
}

TEST(Sampler, LogprobsAreThoseOfTheRawLogits) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 1;
  params.logit_bias = {{TokenId{2}, 100.0f}};
  params.logprobs = true;
  params.top_logprobs = 3;
  Sampler sampler(params, 5, tokens({0}));
  const Sampled sampled = sampler.sample(logits_of({0.4, 0.3, 0.2, 0.1, 0}));
  EXPECT_EQ(index(sampled.token), 2);
  EXPECT_NEAR(sampled.logprob, std::log(0.2), 1e-6);
  ASSERT_EQ(sampled.top.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(index(sampled.top[static_cast<size_t>(i)].token), i);
    EXPECT_NEAR(sampled.top[static_cast<size_t>(i)].logprob, std::log(0.4 - 0.1 * i), 1e-6);
  }
}

TEST(Sampler, TopLogprobsLeaveOutTokensOfZeroProbability) {
  SamplingParams params;
  params.logprobs = true;
  params.top_logprobs = kTopLogprobsMax;
  Sampler sampler(params, 4, {});
  EXPECT_EQ(sampler.sample(std::vector<float>{-kInfinity, 2, kNan, 1}).top.size(), 2u);
}

// Pearson's statistic of `samples` samples against the sampler's own distribution, and its number of cells - 1.
std::pair<double, int> chi_square(const SamplingParams& params, const std::vector<float>& logits, int samples) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()), {});
  std::map<int32_t, int> counts;
  for (int i = 0; i < samples; ++i) ++counts[index(sampler.sample(logits).token)];
  double statistic = 0;
  int cells = 0;
  int counted = 0;
  for (const auto& [token, probability] : sampler.distribution(logits)) {
    const double expected = samples * static_cast<double>(probability);
    statistic += std::pow(counts[index(token)] - expected, 2) / expected;
    counted += counts[index(token)];
    ++cells;
  }
  EXPECT_EQ(counted, samples);
  return {statistic, cells - 1};
}

TEST(Sampler, SamplesFollowTheDistribution) {
  std::vector<float> logits(700);  // three blocks
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 101) / 50;
  const std::vector<void (*)(SamplingParams&)> settings = {
      [](SamplingParams&) {},
      [](SamplingParams& p) { p.temperature = 1.7f; },
      [](SamplingParams& p) { p.top_k = 50; },
      [](SamplingParams& p) { p.top_p = 0.6f; },
      [](SamplingParams& p) { p.min_p = 0.5f, p.temperature = 0.5f; },
      [](SamplingParams& p) { p.typical_p = 0.5f; },
  };
  for (size_t i = 0; i < settings.size(); ++i) {
    SamplingParams params;
    params.seed = 20 + i;
    settings[i](params);
    const auto [statistic, freedom] = chi_square(params, logits, 20'000);
    ASSERT_GT(freedom, 10);
    // Mean + 4 standard deviations: a correct sampler stays below with probability > 0.9999 per case.
    EXPECT_LT(statistic, freedom + 4 * std::sqrt(2.0 * freedom)) << "setting " << i;
    EXPECT_GT(statistic, freedom - 4 * std::sqrt(2.0 * freedom)) << "setting " << i;
  }
}

TEST(Sampler, TheIthTokenDependsOnSeedAndIndexAlone) {
  const std::vector<float> logits(1'000, 0.0f);
  const std::vector<float> other_logits = logits_of({0.5, 0.5});
  const auto answer_of = [&](uint64_t seed, int count, bool disturbed) {
    SamplerScratch scratch;
    SamplingParams params;
    params.seed = seed;
    Sampler sampler(params, 1'000, {}, &scratch);
    params.seed = 99;
    params.top_k = 2;
    params.logprobs = true;
    Sampler other(params, 2, {}, &scratch);
    std::vector<int32_t> result;
    for (int i = 0; i < count; ++i) {
      if (disturbed) {
        other.sample(other_logits);
        sampler.distribution(logits);
      }
      result.push_back(index(sampler.sample(logits).token));
    }
    return result;
  };
  const std::vector<int32_t> alone = answer_of(5, 50, false);
  EXPECT_EQ(alone, answer_of(5, 50, true));
  EXPECT_NE(alone, answer_of(6, 50, false));
  // Earlier tokens do not matter either: the fifth token is the same after other choices of the first four.
  SamplingParams params;
  params.seed = 5;
  Sampler sampler(params, 1'000, {});
  std::vector<float> certain(1'000, -kInfinity);
  certain[7] = 0;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(index(sampler.sample(certain).token), 7);
  EXPECT_EQ(index(sampler.sample(logits).token), alone[4]);
}

// The chain of filters, implemented plainly.
Distribution slow_distribution(const SamplingParams& params, const std::vector<float>& logits) {
  struct Weighed {
    int32_t token;
    double logit, p;
  };
  std::vector<Weighed> entries;
  entries.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) entries.push_back({static_cast<int32_t>(i), logits[i], 0});
  const auto normalise = [&](double temperature) {
    const double largest = std::max_element(entries.begin(), entries.end(), [](const Weighed& a, const Weighed& b) {
                             return a.logit < b.logit;
                           })->logit;
    double sum = 0;
    for (Weighed& e : entries) sum += e.p = std::exp((e.logit - largest) / temperature);
    for (Weighed& e : entries) e.p /= sum;
  };
  const auto keep_mass = [&](double mass, const std::function<double(const Weighed&)>& key) {
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const Weighed& a, const Weighed& b) { return key(a) < key(b); });
    double sum = 0;
    size_t keep = 0;
    while (keep < entries.size() && sum < mass) sum += entries[keep++].p;
    entries.resize(keep);
  };
  const auto by_logit = [](const Weighed& e) { return -e.logit; };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Weighed& a, const Weighed& b) { return by_logit(a) < by_logit(b); });
  if (params.top_k > 0) entries.resize(std::min<size_t>(entries.size(), static_cast<size_t>(params.top_k)));
  if (params.typical_p < 1) {
    normalise(1);
    double entropy = 0;
    for (const Weighed& e : entries) entropy -= e.p * std::log(e.p);
    keep_mass(params.typical_p, [&](const Weighed& e) { return std::abs(-std::log(e.p) - entropy); });
  }
  normalise(1);
  keep_mass(params.top_p, by_logit);
  const double least = entries.front().logit + std::log(params.min_p);
  std::erase_if(entries, [&](const Weighed& e) { return e.logit < least; });
  normalise(params.temperature);
  Distribution result;
  for (const Weighed& e : entries) result.emplace_back(e.token, e.p);
  return result;
}

TEST(Sampler, LargeVocabulariesAgreeWithThePlainChain) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 4);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(500 + random() % 1'500);
    for (float& logit : logits) logit = normal(random);
    SamplingParams params;
    const auto share = [&] { return static_cast<float>(1 + random() % 998) / 1'000; };
    if (random() % 2) params.top_k = static_cast<int32_t>(1 + random() % 300);
    if (random() % 2) params.top_p = share();
    if (random() % 3 == 0) params.min_p = share() * share() * share();
    if (random() % 3 == 0) params.typical_p = share();
    params.temperature = 2 * share();
    const std::string what = "round " + std::to_string(round) + " of seed 11";
    expect_near(distribution_of(params, logits), slow_distribution(params, logits), what);
  }
}

TEST(SamplingParams, ValidateNamesTheFieldAndItsRange) {
  struct Bad {
    const char* field;
    void (*set)(SamplingParams&);
    const char* range;
  };
  using P = SamplingParams;
  const std::vector<Bad> cases = {
      {"temperature", [](P& p) { p.temperature = -0.1f; }, "from 0 to 1000"},
      {"temperature", [](P& p) { p.temperature = 1'001; }, "from 0 to 1000"},
      {"temperature", [](P& p) { p.temperature = kNan; }, "from 0 to 1000"},
      {"top_k", [](P& p) { p.top_k = -1; }, "0 (all tokens) or more"},
      {"top_p", [](P& p) { p.top_p = -0.1f; }, "from 0 to 1"},
      {"top_p", [](P& p) { p.top_p = kNan; }, "from 0 to 1"},
      {"min_p", [](P& p) { p.min_p = 1.1f; }, "from 0 to 1"},
      {"min_p", [](P& p) { p.min_p = -0.1f; }, "from 0 to 1"},
      {"typical_p", [](P& p) { p.typical_p = 1.1f; }, "from 0 to 1"},
      {"repetition_penalty", [](P& p) { p.repetition_penalty = 0; }, "above 0 and at most 10"},
      {"repetition_penalty", [](P& p) { p.repetition_penalty = kInfinity; }, "above 0 and at most 10"},
      {"frequency_penalty", [](P& p) { p.frequency_penalty = 2.5f; }, "from -2 to 2"},
      {"presence_penalty", [](P& p) { p.presence_penalty = -2.5f; }, "from -2 to 2"},
      {"penalty_last_n", [](P& p) { p.penalty_last = -2; }, "from 0 to 65536, or -1"},
      {"penalty_last_n", [](P& p) { p.penalty_last = kPenaltyLastMax + 1; }, "from 0 to 65536, or -1"},
      {"dry_multiplier", [](P& p) { p.dry.multiplier = -1; }, "from 0 to 1000"},
      {"dry_base", [](P& p) { p.dry.base = 0.5f; }, "from 1 to 100"},
      {"dry_allowed_length", [](P& p) { p.dry.allowed_length = -1; }, "0 or more"},
      {"dry_penalty_last_n", [](P& p) { p.dry.last = -2; }, "from 0 to 65536, or -1"},
      {"dry_sequence_breakers", [](P& p) { p.dry.breakers = {""}; }, "1 to 256 bytes"},
      {"dry_sequence_breakers", [](P& p) { p.dry.breakers.resize(kDryBreakersMax + 1, "x"); }, "at most 64"},
      {"top_n_sigma", [](P& p) { p.top_n_sigma = kInfinity; }, "at most 1000"},
      {"xtc_probability", [](P& p) { p.xtc_probability = 1.5f; }, "from 0 to 1"},
      {"xtc_threshold", [](P& p) { p.xtc_threshold = -0.1f; }, "0 or more"},
      {"dynatemp_range", [](P& p) { p.dynatemp_range = -1; }, "from 0 to 1000"},
      {"dynatemp_exponent", [](P& p) { p.dynatemp_exponent = kNan; }, "from 0 to 100"},
      {"mirostat", [](P& p) { p.mirostat = 3; }, "0, 1 or 2"},
      {"mirostat_tau", [](P& p) { p.mirostat_tau = -1; }, "from 0 to 100"},
      {"mirostat_eta", [](P& p) { p.mirostat_eta = 2; }, "from 0 to 1"},
      {"min_keep", [](P& p) { p.min_keep = -1; }, "0 or more"},
      {"samplers", [](P& p) { p.steps.resize(kSamplerStepsMax + 1); }, "at most 32"},
      {"logit_bias", [](P& p) { p.logit_bias = {{TokenId{10}, 1.0f}}; }, "token 10; this model has tokens 0 to 9"},
      {"logit_bias", [](P& p) { p.logit_bias = {{kNoToken, 1.0f}}; }, "token -1; this model has tokens 0 to 9"},
      {"logit_bias", [](P& p) { p.logit_bias = {{TokenId{1}, 100.5f}}; }, "from -100 to 100"},
      {"logit_bias", [](P& p) { p.logit_bias = {{TokenId{1}, kNan}}; }, "from -100 to 100"},
      {"logit_bias", [](P& p) { p.logit_bias.resize(kLogitBiasMax + 1, {TokenId{1}, 1.0f}); }, "at most 1024"},
      {"top_logprobs", [](P& p) { p.top_logprobs = kTopLogprobsMax + 1; }, "from 0 to 1000"},
      {"top_logprobs", [](P& p) { p.top_logprobs = -1; }, "from 0 to 1000"},
  };
  for (const Bad& bad : cases) {
    SamplingParams params;
    bad.set(params);
    const Result<void> result = params.validate(10);
    ASSERT_FALSE(result.has_value()) << bad.field << " " << bad.range;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_EQ(result.error().at, bad.field);
    EXPECT_NE(result.error().message.find(bad.field), std::string::npos) << result.error().message;
    EXPECT_NE(result.error().message.find(bad.range), std::string::npos) << result.error().message;
  }
}

TEST(SamplingParams, TheBoundsOfEveryRangeAreValid) {
  const std::vector<float> logits = {1, 0, -1};
  using P = SamplingParams;
  const std::vector<void (*)(P&)> ends = {
      [](P& p) { p.temperature = 2, p.top_p = 1, p.min_p = 0, p.typical_p = 1, p.repetition_penalty = 10; },
      [](P& p) { p.temperature = std::numeric_limits<float>::denorm_min(), p.repetition_penalty = 1e-38f; },
      [](P& p) { p.top_p = 1e-38f, p.min_p = 0.999999f, p.typical_p = 1e-38f; },
      [](P& p) { p.top_p = 0, p.min_p = 1, p.typical_p = 0, p.temperature = kTemperatureMax; },
      [](P& p) { p.dry = {.multiplier = 1'000, .base = 100, .allowed_length = 0, .last = kPenaltyLastMax}; },
      [](P& p) { p.top_n_sigma = 1'000, p.xtc_probability = 1, p.xtc_threshold = 0, p.min_keep = 1 << 30; },
      [](P& p) { p.dynatemp_range = kTemperatureMax, p.dynatemp_exponent = 100, p.steps.clear(); },
      [](P& p) { p.mirostat = 1, p.mirostat_tau = 0, p.mirostat_eta = 1; },
      [](P& p) { p.mirostat = 2, p.mirostat_tau = 100, p.mirostat_eta = 0; },
      [](P& p) { p.frequency_penalty = -2, p.presence_penalty = 2, p.penalty_last = kPenaltyLastMax; },
      [](P& p) { p.logit_bias.resize(kLogitBiasMax, {TokenId{2}, 100.0f}), p.top_logprobs = kTopLogprobsMax; },
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    SamplingParams params;
    ends[i](params);
    ASSERT_TRUE(params.validate(3).has_value()) << i;
    Sampler sampler(params, 3, tokens({0, 1, 2, 2}));
    for (int step = 0; step < 5; ++step) EXPECT_NE(sampler.sample(logits).token, kNoToken) << i;
  }
}

TEST(Sampler, AGreedyTokenUsesUpItsRandomNumber) {
  const std::vector<float> logits = {0, 0.5f, 1, 0.9f, 0.2f, 0, 0, 0.1f};
  SamplingParams params;
  params.seed = 11;
  Sampler plain(params, 8, {}), once(params, 8, {});
  std::vector<TokenId> expected, actual;
  for (int i = 0; i < 40; ++i) {
    const TokenId sampled = plain.sample(logits).token;
    expected.push_back(i % 3 == 1 ? TokenId{2} : sampled);
    actual.push_back(once.sample(logits, {}, i % 3 == 1).token);
  }
  EXPECT_EQ(actual, expected);
  const TokenId banned[] = {TokenId{2}};
  EXPECT_EQ(once.sample(logits, banned, true).token, TokenId{3});
}

TEST(Sampler, TakesOnlyTokensOfTheMask) {
  std::vector<float> logits(130, 0.0f);
  logits[7] = 50;
  logits[129] = 60;
  std::vector<uint64_t> allowed{uint64_t{1} << 3 | uint64_t{1} << 5, 0, 0};
  for (const bool greedy : {false, true}) {
    SamplingParams params;
    params.temperature = greedy ? 0.0f : 1.0f;
    params.logit_bias = {{TokenId{7}, 100.0f}, {TokenId{129}, 100.0f}};  // revives no token
    Sampler sampler(params, 130, {});
    for (int i = 0; i < 50; ++i) {
      const TokenId token = sampler.sample(logits, {}, false, allowed).token;
      EXPECT_TRUE(token == TokenId{3} || token == TokenId{5}) << index(token);
    }
  }
  // A bias of -100 on all that are allowed still leaves them.
  SamplingParams against;
  against.logit_bias = {{TokenId{3}, -100.0f}, {TokenId{5}, -100.0f}};
  Sampler sampler(against, 130, {});
  for (int i = 0; i < 50; ++i) EXPECT_LE(index(sampler.sample(logits, {}, false, allowed).token), 5);
  // What is banned, too, is not taken; nothing is left then.
  const TokenId both[] = {TokenId{3}, TokenId{5}};
  EXPECT_EQ(sampler.sample(logits, std::span(both).first(1), false, allowed).token, TokenId{5});
  EXPECT_EQ(sampler.sample(logits, both, false, allowed).token, kNoToken);
}

TEST(Sampler, MasksTokensBehindTheLastWordOfTheMask) {
  std::vector<float> logits(200, 0.0f);
  logits[64] = logits[150] = logits[199] = 80;
  const std::vector<uint64_t> one_word{~uint64_t{0}};
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(params, 200, {});
  EXPECT_EQ(sampler.sample(logits, {}, false, one_word).token, TokenId{0});
  const std::vector<uint64_t> two_words{0, uint64_t{1}};
  EXPECT_EQ(sampler.sample(logits, {}, false, two_words).token, TokenId{64});
  // No mask at all masks nothing.
  EXPECT_EQ(sampler.sample(logits).token, TokenId{64});
}

}  // namespace
}  // namespace cairn::sampling
