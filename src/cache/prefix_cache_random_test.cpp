// Random sequences over every kind of group, checked against what was computed: see prefix_cache_fixture.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/testing/prefix_cache_fixture.h"

namespace cairn::cache {
namespace {

struct Setting {
  const char* name;
  std::vector<KvGroup> groups;
  std::vector<int32_t> pages;
  bool evicts = true;  ///< whether the pools are so small that nodes are evicted
  int32_t host_slots = 0;
};

class PrefixCacheRandom : public testing::TestWithParam<Setting> {
 protected:
  static constexpr int kSteps = 1'500;
  static constexpr size_t kSequences = 4;
  static constexpr int32_t kTokensMax = 12 * kernels::kPageTokens;

  PrefixCacheRandom() : lab_(GetParam().groups, GetParam().pages, GetParam().host_slots) {}

  int32_t below(int32_t end) { return static_cast<int32_t>(random_() % end); }

  /// A beginning of an earlier history, and something new.
  std::vector<TokenId> some_tokens() {
    std::vector<TokenId> tokens;
    if (!histories_.empty() && below(8) != 0) {
      tokens = histories_[below(static_cast<int32_t>(histories_.size()))].second;
      if (below(3) != 0) tokens.resize(below(static_cast<int32_t>(tokens.size()) + 1));
      if (below(4) == 0) tokens.resize(tokens.size() / kernels::kPageTokens * kernels::kPageTokens);
    }
    for (int32_t more = below(3 * kernels::kPageTokens); more > 0; --more) tokens.push_back(TokenId{below(2)});
    if (tokens.empty()) tokens.push_back(TokenId{0});
    tokens.resize(std::min<size_t>(tokens.size(), kTokensMax));
    return tokens;
  }
  void start() {
    const auto salt = static_cast<uint64_t>(below(2));
    LabSequence made = lab_.sequence(some_tokens(), salt);
    const auto size = static_cast<int32_t>(made.tokens.size());
    const int32_t tokens_max = below(3) == 0 ? below(size + 1) : size - 1;
    const PrefixHit hit = lab_.resume(made, tokens_max);
    ASSERT_LE(hit.tokens, std::max(0, tokens_max));
    if (hit.mismatch_position >= 0) {
      ASSERT_NE(made.tokens.at(hit.mismatch_position), hit.mismatch_token);
      ASSERT_TRUE(was_there(made, hit));
    }
    if (!GetParam().evicts) check_is_longest(made, hit, tokens_max);
    sequences_.push_back(std::make_unique<LabSequence>(std::move(made)));
  }
  /// Whether some sequence had the token that the hit names as cached, after the same beginning.
  bool was_there(const LabSequence& made, const PrefixHit& hit) const {
    const auto had = [&](uint64_t salt, const std::vector<TokenId>& tokens) {
      return salt == made.salt && static_cast<int32_t>(tokens.size()) > hit.mismatch_position &&
             tokens[hit.mismatch_position] == hit.mismatch_token &&
             std::equal(tokens.begin(), tokens.begin() + hit.mismatch_position, made.tokens.begin());
    };
    return std::ranges::any_of(histories_, [&](const auto& each) { return had(each.first, each.second); }) ||
           std::ranges::any_of(sequences_, [&](const auto& each) { return had(each->salt, each->tokens); });
  }
  /// For runs without eviction: the longest computed beginning is found; with states, at least the longest among
  /// sequences that have ended.
  void check_is_longest(const LabSequence& made, const PrefixHit& hit, int32_t tokens_max) {
    const bool state = std::ranges::any_of(GetParam().groups, [](const auto& g) { return g.kind == KvKind::kState; });
    int32_t longest = 0;
    for (const auto& [salt, tokens] : histories_) {
      if (salt != made.salt) continue;
      const auto agree = static_cast<int32_t>(std::ranges::mismatch(tokens, made.tokens).in1 - tokens.begin());
      if (!state) longest = std::max(longest, std::min(agree, tokens_max));
      if (state && agree == static_cast<int32_t>(tokens.size()) && agree <= tokens_max)
        longest = std::max(longest, agree);
    }
    if (state) {
      ASSERT_GE(hit.tokens, longest);
      return;
    }
    for (const auto& other : sequences_) {
      if (other->salt != made.salt) continue;
      const auto agree =
          static_cast<int32_t>(std::ranges::mismatch(other->tokens, made.tokens).in1 - other->tokens.begin());
      longest = std::max(longest, std::min({agree, tokens_max, other->cursor.tokens}));
    }
    ASSERT_EQ(hit.tokens, longest);
  }
  void compute(LabSequence& sequence) {
    const int32_t left = static_cast<int32_t>(sequence.tokens.size()) - sequence.computed;
    int32_t rows = std::min(left, 1 + below(below(2) == 0 ? 3 : 3 * kernels::kPageTokens));
    if (below(3) == 0) rows = std::min(left, kernels::kPageTokens - sequence.computed % kernels::kPageTokens);
    if (rows == 0) return;
    if (!lab_.reserve(sequence, rows)) {
      ASSERT_TRUE(GetParam().evicts);
      return leave(below(static_cast<int32_t>(sequences_.size())));
    }
    lab_.compute(sequence, rows, below(5));
    // Whole pages that a window left behind before they were added are lost to the cache, but no others.
    if (GetParam().evicts && below(10) == 0) lab_.pool().release_behind(sequence.table, sequence.computed);
    lab_.advance(sequence);
  }
  void leave(size_t which) {
    LabSequence& sequence = *sequences_[which];
    lab_.verify(sequence);
    auto computed = sequence.tokens;
    computed.resize(sequence.computed);
    lab_.leave(sequence);
    if (!computed.empty()) histories_.emplace_back(sequence.salt, std::move(computed));
    sequences_.erase(sequences_.begin() + static_cast<int64_t>(which));
  }
  void make_room() {
    const int32_t group = below(lab_.pool().groups());
    const int32_t wanted = below(lab_.pool().pages_total(group) + 2);
    const int32_t possible = lab_.pool().pages_free(group) + lab_.cache().pages_evictable(group);
    const int32_t before = lab_.pool().pages_free(group);
    ASSERT_EQ(lab_.cache().make_room(group, wanted), wanted <= possible);
    ASSERT_GE(lab_.pool().pages_free(group), wanted <= possible ? std::max(wanted, before) : before);
  }
  void step() {
    const int32_t action = below(100);
    if (sequences_.size() < kSequences && (sequences_.empty() || action < 15)) return start();
    LabSequence& sequence = *sequences_[below(static_cast<int32_t>(sequences_.size()))];
    if (action < 25) {
      leave(below(static_cast<int32_t>(sequences_.size())));
    } else if (action < 35 && sequence.computed == sequence.cursor.tokens) {
      if (below(2) == 0 && !lab_.reserve(sequence, below(kTokensMax - sequence.computed + 1))) return;
      lab_.resume(sequence, below(static_cast<int32_t>(sequence.tokens.size()) + 1));
    } else if (action < 38 && GetParam().evicts) {
      make_room();
    } else if (action == 99 && GetParam().evicts && below(5) == 0) {
      lab_.cache().clear();
      ASSERT_TRUE(!sequences_.empty() || lab_.cache().nodes() == 0);
    } else if (action == 98) {
      lab_.cache().set_cost({1.0 + below(1000), 0.01 * below(100)});
    } else {
      compute(sequence);
    }
  }
  void check() {
    std::vector<LabSequence*> all;
    for (const auto& sequence : sequences_) all.push_back(sequence.get());
    lab_.verify_references(all);
    for (const LabSequence* sequence : all) lab_.verify(*sequence);
  }

  PrefixCacheFixture lab_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<LabSequence>> sequences_;
  // Salt and tokens of the sequences that have ended.
  std::vector<std::pair<uint64_t, std::vector<TokenId>>> histories_;
};

TEST_P(PrefixCacheRandom, EveryPageReadHasTheRightContentsAndNoneLeaks) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_.seed(seed);
    histories_.clear();
    // Histories grow, and what is kept grows with them: without eviction there is memory for a limited number of steps.
    const int steps = GetParam().evicts ? kSteps : kSteps / 2;
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE(testing::Message() << "step " << i);
      step();
      check();
      if (testing::Test::HasFailure()) return;
    }
    while (!sequences_.empty()) leave(0);
    lab_.cache().clear();
    EXPECT_EQ(lab_.cache().nodes(), 0);
    EXPECT_EQ(lab_.cache().host_slots_free(), GetParam().host_slots);
    EXPECT_EQ(lab_.cache().pages_restored() > 0, GetParam().host_slots > 0);
    for (int32_t g = 0; g < lab_.pool().groups(); ++g) EXPECT_EQ(lab_.pool().pages_free(g), lab_.pool().pages_total(g));
  }
}

const Setting kSettings[] = {
    {"Full", {full_group()}, {30}},
    {"FullAndLatent", {full_group(), latent_group()}, {40, 31}},
    {"FullAndWindow", {full_group(), window_group(40)}, {40, 20}},
    {"FullAndOptionalWindow", {full_group(), optional_window_group(2), state_group()}, {40, 9, 6}},
    {"WindowsOnly", {window_group(70), window_group(33)}, {30, 25}},
    {"WindowsAtTheEdges", {window_group(1), full_group(), window_group(65), window_group(10'000)}, {14, 40, 20, 40}},
    {"LatentAndState", {latent_group(), state_group()}, {40, 9}},
    {"StateOnly", {state_group()}, {7}},
    {"AllKinds", {state_group(), window_group(50), full_group(), latent_group(), state_group()}, {8, 22, 40, 36, 6}},
    {"FullOnHost", {full_group()}, {30}, true, 50},
    {"FullOnHostWithFewSlots", {full_group(), latent_group()}, {30, 40}, true, 4},
    {"AllKindsOnHost",
     {state_group(), window_group(50), full_group(), latent_group(), window_group(10'000)},
     {8, 22, 40, 36, 40},
     true,
     60},
    {"WindowsOnlyOnHost", {window_group(70), window_group(33)}, {30, 25}, true, 30},
    {"StatesOnHost", {state_group(), full_group()}, {7, 30}, true, 20},
    {"RoomForAll", {full_group(), window_group(40)}, {4'000, 4'000}, false},
    {"RoomForAllStates", {full_group(), window_group(90), state_group()}, {4'000, 4'000, 900}, false},
};
INSTANTIATE_TEST_SUITE_P(Kinds, PrefixCacheRandom, testing::ValuesIn(kSettings),
                         [](const auto& setting) { return std::string(setting.param.name); });

}  // namespace
}  // namespace cairn::cache
