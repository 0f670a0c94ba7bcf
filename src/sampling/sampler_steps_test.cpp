// The steps of the chain beyond top-k, top-p and min-p, and their order, against an implementation that does what the
// definitions say and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "sampling/random.h"
#include "sampling/sampler.h"

namespace cairn::sampling {
namespace {

// A vocabulary of given texts.
class Pieces final : public tokenizer::Tokenizer {
 public:
  explicit Pieces(std::vector<std::string> pieces, TokenId end = kNoToken) : pieces_(std::move(pieces)) {
    special_.eot = end;
  }
  Result<std::vector<TokenId>> encode(std::string_view, tokenizer::EncodeOptions) const override {
    return fail(Code::kUnsupported, "not needed here");
  }
  std::string_view piece(TokenId id, bool) const override { return pieces_[static_cast<size_t>(index(id))]; }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  int32_t size() const override { return static_cast<int32_t>(pieces_.size()); }
  const tokenizer::SpecialTokens& special() const override { return special_; }
  bool ends_generation(TokenId id) const override { return id == special_.eot; }
  bool is_special(TokenId) const override { return false; }
  std::string_view entry(TokenId id) const override { return piece(id, true); }

 private:
  std::vector<std::string> pieces_;
  tokenizer::SpecialTokens special_;
};

struct Entry {
  int32_t token;
  double logit;
  double p = 0;
};
using Entries = std::vector<Entry>;

void by_logit(Entries& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
}

void softmax(Entries& entries) {
  double largest = -1e300;
  double sum = 0;
  for (const Entry& entry : entries) largest = std::max(largest, entry.logit);
  for (Entry& entry : entries) sum += entry.p = std::exp(entry.logit - largest);
  for (Entry& entry : entries) entry.p /= sum;
}

// Cuts the sorted entries where the sum of their probabilities reaches `mass`.
void cut(Entries& entries, double mass, size_t min_keep) {
  double sum = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    sum += entries[i].p;
    if (sum >= mass - 1e-6 && i + 1 >= std::max<size_t>(1, min_keep)) return entries.resize(i + 1);
  }
}

// The length of the longest sequence at the end of `said` that occurred before and was followed by `token` there, cut
// at the last breaker; -1: the token has not occurred behind anything.
int32_t longest_repetition(const std::vector<int32_t>& said, const std::vector<bool>& breaks, int32_t token) {
  int32_t longest = -1;
  for (size_t at = 1; at < said.size(); ++at) {
    if (said[at] != token) continue;
    int32_t length = 0;
    while (static_cast<size_t>(length) < at) {
      const size_t end = said.size() - 1 - static_cast<size_t>(length);
      if (said[at - 1 - static_cast<size_t>(length)] != said[end] || breaks[end]) break;
      ++length;
    }
    longest = std::max(longest, length);
  }
  return longest;
}

struct Reference {
  SamplingParams params;
  std::vector<std::string> pieces;
  std::vector<int32_t> said;
  uint64_t sampled = 0;

  void penalties(Entries& entries) const {
    if (params.penalty_last == 0) return;
    const size_t last = params.penalty_last < 0 ? said.size() : static_cast<size_t>(params.penalty_last);
    std::map<int32_t, int> counts;
    for (size_t i = said.size() - std::min(said.size(), last); i < said.size(); ++i) ++counts[said[i]];
    for (Entry& entry : entries) {
      const auto count = counts.find(entry.token);
      if (count == counts.end()) continue;
      entry.logit = entry.logit > 0 ? entry.logit / params.repetition_penalty : entry.logit * params.repetition_penalty;
      entry.logit -= count->second * params.frequency_penalty + params.presence_penalty;
    }
  }

  bool holds_breaker(const std::string& text) const {
    return std::ranges::any_of(params.dry.breakers,
                               [&](const std::string& breaker) { return text.find(breaker) != std::string::npos; });
  }

  void dry(Entries& entries) const {
    if (params.dry.multiplier == 0 || params.dry.last == 0) return;
    const size_t last = params.dry.last < 0 ? said.size() : static_cast<size_t>(params.dry.last);
    const std::vector<int32_t> window(said.end() - static_cast<ptrdiff_t>(std::min(said.size(), last)), said.end());
    std::vector<bool> breaks(window.size());
    for (size_t i = 0; i < window.size(); ++i) {
      // A breaker ends in this token if the text up to it has one more than the text before it.
      std::string before;
      for (size_t j = 0; j < i; ++j) before += pieces[static_cast<size_t>(window[j])];
      const std::string with = before + pieces[static_cast<size_t>(window[i])];
      breaks[i] = std::ranges::any_of(params.dry.breakers, [&](const std::string& breaker) {
        const size_t at = with.rfind(breaker);
        return at != std::string::npos && at + breaker.size() > before.size();
      });
    }
    for (Entry& entry : entries) {
      const int32_t length = longest_repetition(window, breaks, entry.token);
      if (length < params.dry.allowed_length || holds_breaker(pieces[static_cast<size_t>(entry.token)])) continue;
      entry.logit -= params.dry.multiplier * std::pow(params.dry.base, length - params.dry.allowed_length);
    }
  }

  void sigma(Entries& entries) const {
    if (params.top_n_sigma <= 0) return;
    double mean = 0, square = 0, largest = -1e300;
    for (const Entry& entry : entries) mean += entry.logit / static_cast<double>(entries.size());
    for (const Entry& entry : entries)
      square += (entry.logit - mean) * (entry.logit - mean) / static_cast<double>(entries.size());
    for (const Entry& entry : entries) largest = std::max(largest, entry.logit);
    std::erase_if(entries,
                  [&](const Entry& entry) { return entry.logit < largest - params.top_n_sigma * std::sqrt(square); });
  }

  void typical(Entries& entries) const {
    if (params.typical_p >= 1) return;
    softmax(entries);
    double entropy = 0;
    for (const Entry& entry : entries) entropy -= entry.p > 0 ? entry.p * std::log(entry.p) : 0;
    std::ranges::stable_sort(entries, {}, [&](const Entry& entry) { return std::abs(-std::log(entry.p) - entropy); });
    cut(entries, params.typical_p, static_cast<size_t>(params.min_keep));
  }

  void min_p(Entries& entries) const {
    softmax(entries);
    by_logit(entries);
    size_t kept = 0;
    while (kept < entries.size() && (kept < static_cast<size_t>(std::max(1, params.min_keep)) ||
                                     entries[kept].p >= entries[0].p * params.min_p * (1 - 1e-6)))
      ++kept;
    entries.resize(kept);
  }

  void xtc(Entries& entries, double chance) const {
    if (params.xtc_probability <= 0 || params.xtc_threshold > 0.5 || chance >= params.xtc_probability) return;
    softmax(entries);
    by_logit(entries);
    size_t above = 0;
    while (above < entries.size() && entries[above].p >= params.xtc_threshold - 1e-6) ++above;
    if (above < 2 || entries.size() - (above - 1) < static_cast<size_t>(params.min_keep)) return;
    entries.erase(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(above) - 1);
  }

  void temperature(Entries& entries) const {
    double t = params.temperature;
    if (params.dynatemp_range > 0 && entries.size() > 1) {
      softmax(entries);
      double entropy = 0;
      for (const Entry& entry : entries) entropy -= entry.p > 0 ? entry.p * std::log(entry.p) : 0;
      const double low = std::max(0.0f, params.temperature - params.dynatemp_range);
      const double high = params.temperature + params.dynatemp_range;
      const double share = std::min(1.0, entropy / std::log(static_cast<double>(entries.size())));
      t = low + (high - low) * std::pow(share, params.dynatemp_exponent);
    }
    if (t <= 0) {
      by_logit(entries);
      return entries.resize(1);
    }
    for (Entry& entry : entries) entry.logit /= t;
  }

  // What the next token is sampled from. `chance`: XTC's random number.
  Entries distribution(const std::vector<float>& logits, double chance) const {
    Entries entries;
    for (size_t i = 0; i < logits.size(); ++i) entries.push_back({static_cast<int32_t>(i), logits[i]});
    for (const SamplerStep step : params.steps) {
      if (step == SamplerStep::kPenalties) penalties(entries);
      if (step == SamplerStep::kDry) dry(entries);
      if (step == SamplerStep::kTopNSigma) sigma(entries);
      if (step == SamplerStep::kTypicalP) typical(entries);
      if (step == SamplerStep::kMinP && params.min_p > 0) min_p(entries);
      if (step == SamplerStep::kXtc) xtc(entries, chance);
      if (step == SamplerStep::kTemperature) temperature(entries);
      if (step == SamplerStep::kTopK && params.top_k > 0) {
        by_logit(entries);
        entries.resize(std::min(entries.size(), static_cast<size_t>(params.top_k)));
      }
      if (step == SamplerStep::kTopP && params.top_p < 1) {
        softmax(entries);
        by_logit(entries);
        cut(entries, params.top_p, static_cast<size_t>(params.min_keep));
      }
    }
    softmax(entries);
    by_logit(entries);
    return entries;
  }
};

constexpr int32_t kVocabulary = 40;

std::vector<std::string> some_pieces() {
  std::vector<std::string> pieces;
  for (int32_t i = 0; i < kVocabulary; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i % 26)));
  pieces[3] = "\n";
  pieces[7] = "x:y";
  pieces[11] = "<";
  pieces[12] = "br";
  pieces[13] = ">!";
  return pieces;
}

SamplingParams random_params(std::mt19937& random) {
  const auto real = [&](double low, double high) {
    return static_cast<float>(std::uniform_real_distribution(low, high)(random));
  };
  const auto maybe = [&] { return random() % 2 == 0; };
  SamplingParams params;
  params.temperature = random() % 8 == 0 ? 0 : real(0.3, 3);
  if (maybe()) params.top_k = 1 + static_cast<int32_t>(random() % kVocabulary);
  if (maybe()) params.top_p = real(0.05, 1);
  if (maybe()) params.min_p = real(0, 0.6);
  if (random() % 4 == 0 && params.temperature > 0) params.typical_p = real(0.1, 1);
  if (maybe()) params.repetition_penalty = real(0.8, 1.5);
  if (maybe()) params.frequency_penalty = real(-0.5, 0.5);
  params.penalty_last = static_cast<int32_t>(random() % 30) - 1;
  if (maybe()) params.dry.multiplier = real(0.1, 2);
  params.dry.base = real(1, 2.5);
  params.dry.allowed_length = static_cast<int32_t>(random() % 4);
  params.dry.last = static_cast<int32_t>(random() % 40) - 1;
  params.dry.breakers = {"\n", ":", "<br>"};
  if (maybe()) params.top_n_sigma = real(0.3, 2);
  if (maybe()) params.xtc_probability = real(0, 1);
  params.xtc_threshold = real(0.01, 0.3);
  if (maybe()) params.dynatemp_range = real(0.1, 1);
  params.dynatemp_exponent = real(0.3, 3);
  params.min_keep = static_cast<int32_t>(random() % 6);
  params.seed = random();
  if (maybe()) std::ranges::shuffle(params.steps, random);
  if (maybe()) params.steps.resize(random() % (params.steps.size() + 1));
  return params;
}

// Whether XTC acts is random: one of two distributions must be right.
bool same(const std::vector<std::pair<TokenId, float>>& actual, const Entries& expected) {
  if (actual.size() != expected.size()) return false;
  std::map<int32_t, double> wanted;
  for (const Entry& entry : expected) wanted[entry.token] = entry.p;
  return std::ranges::all_of(actual, [&](const auto& each) {
    const auto found = wanted.find(index(each.first));
    return found != wanted.end() && std::abs(found->second - each.second) < 1e-4;
  });
}

TEST(SamplerSteps, AnyChainOfStepsGivesTheDistributionOfItsDefinition) {
  std::mt19937 random(40);
  const Pieces tokenizer(some_pieces());
  int xtc_acted = 0;
  for (int round = 0; round < 3'000; ++round) {
    Reference reference{random_params(random), some_pieces(), {}};
    const SamplingParams& params = reference.params;
    ASSERT_TRUE(params.validate(kVocabulary).has_value());
    std::vector<TokenId> prompt;
    const uint32_t variety = 2 + random() % 12;  // of tokens, so that sequences repeat
    for (uint32_t i = random() % 40; i > 0; --i) {
      reference.said.push_back(static_cast<int32_t>(random() % variety + (random() % 9 == 0 ? 9 : 0)));
      prompt.push_back(TokenId{reference.said.back()});
    }
    Sampler sampler(params, kVocabulary, prompt, nullptr, &tokenizer);
    for (int step = 0; step < 4; ++step) {
      std::vector<float> logits(kVocabulary);
      for (float& logit : logits) logit = static_cast<float>(std::normal_distribution(0.0, 2.0)(random));
      const auto actual = sampler.distribution(logits);
      const bool without = same(actual, reference.distribution(logits, 1));
      const bool with = same(actual, reference.distribution(logits, 0));
      std::string steps;
      for (const SamplerStep each : params.steps) steps += std::string(sampler_step_name(each)) + " ";
      ASSERT_TRUE(without || with) << "round " << round << ", step " << step << ": " << steps;
      xtc_acted += with && !without ? 1 : 0;
      const TokenId token = sampler.sample(logits).token;
      ASSERT_TRUE(std::ranges::any_of(actual, [&](const auto& each) { return each.first == token; }));
      reference.said.push_back(index(token));
    }
  }
  EXPECT_GT(xtc_acted, 100);
}

TEST(SamplerSteps, XtcActsAsOftenAsItsProbabilitySays) {
  const std::vector<float> logits = {2, 1.9f, 1.8f, -9};
  SamplingParams params;
  params.xtc_probability = 0.25f;
  Sampler sampler(params, 4, {});
  int acted = 0;
  constexpr int kRounds = 4'000;
  for (int i = 0; i < kRounds; ++i) {
    acted += sampler.distribution(logits).front().first == TokenId{2} ? 1 : 0;
    sampler.sample(logits);
  }
  EXPECT_NEAR(static_cast<double>(acted) / kRounds, 0.25, 0.03);
}

TEST(SamplerSteps, DryPenalisesByTheLengthOfTheRepetition) {
  // a b c d ... a b c: d would make a repetition of three longer.
  const std::vector<TokenId> prompt = {TokenId{0}, TokenId{1}, TokenId{2}, TokenId{4},
                                       TokenId{9}, TokenId{0}, TokenId{1}, TokenId{2}};
  SamplingParams params;
  params.dry = {.multiplier = 1, .base = 2, .allowed_length = 2};
  const Pieces tokenizer(some_pieces());
  const std::vector<float> logits(kVocabulary, 0.0f);
  const auto probability_of_four = [&](const std::vector<TokenId>& said) {
    Sampler sampler(params, kVocabulary, said, nullptr, &tokenizer);
    for (const auto& [token, p] : sampler.distribution(logits))
      if (token == TokenId{4}) return static_cast<double>(p);
    return -1.0;
  };
  const double penalised = std::exp(-2.0);  // 1 * 2^(3 - 2)
  EXPECT_NEAR(probability_of_four(prompt), penalised / (kVocabulary - 1 + penalised), 1e-6);
  std::vector<TokenId> broken = prompt;
  broken[6] = TokenId{3};  // a line's end
  EXPECT_NEAR(probability_of_four(broken), 1.0 / kVocabulary, 1e-6);
  params.dry.last = 4;
  EXPECT_NEAR(probability_of_four(prompt), 1.0 / kVocabulary, 1e-6);
}

// Mirostat as its paper has it, with the sampler's own random numbers and order of candidates.
int32_t reference_mirostat(const SamplingParams& params, const std::vector<float>& logits, uint64_t i, double& mu) {
  Entries entries;
  for (size_t k = 0; k < logits.size(); ++k)
    entries.push_back({static_cast<int32_t>(k), logits[k] / static_cast<double>(params.temperature)});
  softmax(entries);
  if (params.mirostat == 1) {
    by_logit(entries);
    double tb = 0, tt = 0;
    for (size_t k = 0; k + 1 < std::min<size_t>(100, entries.size()); ++k) {
      const double t = std::log((static_cast<double>(k) + 2) / (static_cast<double>(k) + 1));
      tb += t * std::log(entries[k].p / entries[k + 1].p);
      tt += t * t;
    }
    const double s = tb / tt, epsilon = s - 1;
    const double k =
        std::pow(epsilon * std::pow(2, mu) / (1 - std::pow(static_cast<double>(logits.size()), -epsilon)), 1 / s);
    entries.resize(std::clamp<size_t>(static_cast<size_t>(k), 1, entries.size()));
  } else {
    Entries kept;
    for (const Entry& entry : entries)
      if (-std::log2(entry.p) <= mu) kept.push_back(entry);
    if (kept.empty()) kept.push_back(*std::ranges::max_element(entries, {}, &Entry::p));
    entries = kept;
  }
  softmax(entries);
  const double target = uniform(params.seed, i);
  double sum = 0;
  for (const Entry& entry : entries) {
    sum += entry.p;
    if (sum <= target && &entry != &entries.back()) continue;
    mu -= params.mirostat_eta * (-std::log2(entry.p) - params.mirostat_tau);
    return entry.token;
  }
  return -1;
}

TEST(SamplerSteps, MirostatFollowsItsPaper) {
  for (const int32_t version : {1, 2}) {
    std::mt19937 random(7);
    SamplingParams params;
    params.mirostat = version;
    params.mirostat_tau = 3;
    params.mirostat_eta = 0.2f;
    params.temperature = 0.9f;
    params.top_k = 1;  // filters do not count
    params.seed = 5;
    double mu = 2.0 * params.mirostat_tau;
    Sampler sampler(params, 400, {});
    double surprise = 0;
    constexpr int kTokens = 400;
    for (uint64_t i = 0; i < kTokens; ++i) {
      std::vector<float> logits(400);
      for (float& logit : logits) logit = static_cast<float>(std::normal_distribution(0.0, 2.5)(random));
      const double before = mu;
      ASSERT_EQ(index(sampler.sample(logits).token), reference_mirostat(params, logits, i, mu)) << version << " " << i;
      surprise += params.mirostat_tau - (mu - before) / params.mirostat_eta;
    }
    EXPECT_NEAR(surprise / kTokens, 3, 0.35) << version;
  }
}

TEST(SamplerSteps, MirostatAtTemperature0TakesTheLargest) {
  SamplingParams params;
  params.mirostat = 2;
  params.temperature = 0;
  EXPECT_EQ(Sampler(params, 4, {}).sample(std::vector<float>{0, 3, 2, 1}).token, TokenId{1});
}

TEST(SamplerSteps, FilteredLogProbabilitiesAreThoseSampledFrom) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  SamplingParams params;
  params.top_k = 2;
  params.logprobs = true;
  params.top_logprobs = 3;
  params.filtered_logprobs = true;
  const Sampled sampled = Sampler(params, 4, {}).sample(logits);
  ASSERT_EQ(sampled.top.size(), 2U);
  EXPECT_NEAR(std::exp(sampled.top[0].logprob), 4 / 7., 1e-6);
  EXPECT_NEAR(std::exp(sampled.top[1].logprob), 3 / 7., 1e-6);
  EXPECT_NEAR(std::exp(sampled.logprob), sampled.token == TokenId{0} ? 4 / 7. : 3 / 7., 1e-6);
  params.top_k = 0;
  EXPECT_NEAR(std::exp(Sampler(params, 4, {}).sample(logits).top[0].logprob), 0.4, 1e-6);
  params.temperature = 0;
  const Sampled greedy = Sampler(params, 4, {}).sample(logits);
  EXPECT_EQ(greedy.logprob, 0);
  EXPECT_EQ(std::exp(greedy.top[1].logprob), 0);
}

TEST(SamplerSteps, ReportedProbabilitiesDoNotChangeWhatIsSampled) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    SamplingParams params = random_params(random);
    params.dry.multiplier = 0;
    SamplingParams reporting = params;
    reporting.logprobs = reporting.filtered_logprobs = true;
    reporting.top_logprobs = 5;
    Sampler plain(params, kVocabulary, {}), told(reporting, kVocabulary, {});
    for (int step = 0; step < 10; ++step) {
      std::vector<float> logits(kVocabulary);
      for (float& logit : logits) logit = static_cast<float>(std::normal_distribution(0.0, 2.0)(random));
      const Sampled sampled = told.sample(logits);
      ASSERT_EQ(plain.sample(logits).token, sampled.token) << round;
      ASSERT_GT(std::exp(sampled.logprob), 0) << round;
    }
  }
}

TEST(SamplerSteps, InfillPrefersAnEndAndMergesBeginnings) {
  SamplingParams params;
  params.steps = {SamplerStep::kTopK, SamplerStep::kInfill};
  params.top_k = 40;
  const Pieces tokenizer({"hel", "hell", "hello", "dummy", "</s>"}, TokenId{4});
  const auto kept = [&](const std::vector<float>& p) {
    std::vector<float> logits;
    for (const float each : p) logits.push_back(std::log(each));
    return Sampler(params, 5, {}, nullptr, &tokenizer).distribution(logits);
  };
  // 3 * 0.1 * 5 tokens is more than 0.9: it ends.
  const auto ended = kept({0.4f, 0.2f, 0.1f, 0.2f, 0.1f});
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].first, TokenId{4});
  // "hel" has the probability of what it begins, 0.799; the dummy is below 0.2, and an end stays.
  const auto merged = kept({0.5f, 0.2f, 0.099f, 0.181f, 0.02f});
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].first, TokenId{0});
  EXPECT_NEAR(merged[0].second, 0.799 / 0.819, 1e-5);
  EXPECT_EQ(merged[1].first, TokenId{4});
  // Nothing is likely: it ends.
  const Pieces apart({"a", "b", "c", "d", "e", "f", "</s>"}, TokenId{6});
  std::vector<float> even(7, std::log(0.166f));
  even[6] = std::log(0.004f);
  EXPECT_EQ(Sampler(params, 7, {}, nullptr, &apart).sample(even).token, TokenId{6});
}

TEST(SamplerSteps, OnlyWhatTheDeviceKnowsIsLeftToIt) {
  using P = SamplingParams;
  const auto on_device = [](void (*set)(P&)) {
    SamplingParams params;
    set(params);
    return Sampler(params, 8, {}).can_sample_on_device({});
  };
  EXPECT_TRUE(on_device([](P& p) { p.top_k = 4, p.top_p = 0.9f, p.min_p = 0.1f, p.temperature = 0.7f; }));
  EXPECT_TRUE(on_device([](P& p) { p.steps = {SamplerStep::kTopK, SamplerStep::kTemperature}, p.top_k = 4; }));
  EXPECT_TRUE(on_device([](P& p) { p.top_p = 0; }));
  EXPECT_FALSE(on_device(
      [](P& p) { p.steps = {SamplerStep::kTemperature, SamplerStep::kTopK}, p.top_k = 4, p.temperature = 2; }));
  EXPECT_FALSE(on_device([](P& p) { p.dry.multiplier = 1; }));
  EXPECT_FALSE(on_device([](P& p) { p.xtc_probability = 0.5f; }));
  EXPECT_FALSE(on_device([](P& p) { p.top_n_sigma = 1; }));
  EXPECT_FALSE(on_device([](P& p) { p.dynatemp_range = 1; }));
  EXPECT_FALSE(on_device([](P& p) { p.mirostat = 2; }));
  EXPECT_FALSE(on_device([](P& p) { p.adaptive_target = 0.5f; }));
  EXPECT_FALSE(on_device([](P& p) { p.logprobs = p.filtered_logprobs = true; }));
}

TEST(SamplerSteps, NamesAndLettersAreThoseOfLlamaCpp) {
  std::string letters = "edskypmxta";
  for (size_t i = 0; i < letters.size(); ++i) {
    EXPECT_EQ(sampler_step_of_letter(letters[i]), kDefaultSamplerSteps[i]);
    EXPECT_EQ(sampler_step_named(sampler_step_name(kDefaultSamplerSteps[i])), kDefaultSamplerSteps[i]);
  }
  EXPECT_EQ(sampler_step_named("nucleus"), SamplerStep::kTopP);
  EXPECT_EQ(sampler_step_named("frobnicate"), std::nullopt);
  EXPECT_EQ(sampler_step_of_letter('z'), std::nullopt);
}

}  // namespace
}  // namespace cairn::sampling
