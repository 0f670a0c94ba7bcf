#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/speculation/drafter.h"

namespace cairn::engine {
namespace {

using Numbers = std::vector<int32_t>;

std::vector<TokenId> tokens_of(const Numbers& ids) {
  std::vector<TokenId> tokens;
  for (const int32_t id : ids) tokens.push_back(TokenId{id});
  return tokens;
}

Numbers lookup(const Numbers& ids, int32_t tokens_max = 4, int32_t ngram_max = 4) {
  const std::vector<TokenId> tokens = tokens_of(ids);
  std::vector<TokenId> proposed;
  proposed.reserve(static_cast<size_t>(tokens_max));
  const TokenId* const room = proposed.data();
  const std::vector<DraftRequest> requests = {{SequenceId{1}, tokens, tokens_max, &proposed}};
  make_prompt_lookup(ngram_max)->propose(requests);
  EXPECT_EQ(proposed.data(), room) << "grew";
  Numbers result;
  for (const TokenId token : proposed) result.push_back(index(token));
  return result;
}

TEST(PromptLookup, ProposesTheTokensAfterTheEarlierOccurrence) {
  EXPECT_EQ(lookup({1, 2, 3, 4, 5, 6, 9, 1, 2}), (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(lookup({1, 2, 3, 4, 5, 6, 9, 1, 2}, 2), (Numbers{3, 4}));
}

TEST(PromptLookup, ProposesNothingForARunOfOneToken) {
  EXPECT_EQ(lookup({}), Numbers{});
  EXPECT_EQ(lookup({1}), Numbers{});
  EXPECT_EQ(lookup({1, 1}), Numbers{});
  EXPECT_EQ(lookup({1, 2, 3, 4}), Numbers{});
  EXPECT_EQ(lookup({7, 2, 3, 9, 2}), Numbers{});  // one token is not a run
  EXPECT_EQ(lookup({1, 2, 8, 2}), Numbers{});
}

TEST(PromptLookup, TheLongestRunWinsThenTheLatest) {
  EXPECT_EQ(lookup({5, 1, 2, 70, 9, 9, 1, 2, 80, 9, 5, 1, 2}, 1), Numbers{70});
  EXPECT_EQ(lookup({1, 2, 70, 9, 1, 2, 80, 9, 1, 2}, 1), Numbers{80});
  // Runs longer than ngram_max are not told apart.
  EXPECT_EQ(lookup({5, 1, 2, 70, 9, 9, 1, 2, 80, 9, 5, 1, 2}, 1, 2), Numbers{80});
  EXPECT_EQ(lookup({5, 1, 2, 70, 9, 9, 1, 2, 80, 9, 5, 1, 2}, 1, -3), Numbers{80});
}

TEST(PromptLookup, ContinuesARepetition) {
  EXPECT_EQ(lookup({4, 4, 4}, 5), (Numbers{4, 4, 4, 4, 4}));
  EXPECT_EQ(lookup({1, 2, 3, 1, 2, 3, 1, 2}, 5), (Numbers{3, 1, 2, 3, 1}));
}

TEST(PromptLookup, SearchesTheLastLookupTokensMaxTokensOnly) {
  Numbers ids(kLookupTokensMax + 10);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + i);
  ids[ids.size() - 2] = 1;
  ids[ids.size() - 1] = 2;
  ids[10] = 1;  // the first token within reach
  ids[11] = 2;
  EXPECT_EQ(lookup(ids, 1), Numbers{112});
  std::swap(ids[10], ids[9]);
  std::swap(ids[11], ids[10]);
  EXPECT_EQ(lookup(ids, 1), Numbers{});
}

/// The header's definition, implemented plainly.
Numbers slow_lookup(const Numbers& ids, int32_t tokens_max, int32_t ngram_max) {
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t length = std::min<int64_t>(ngram_max, size - 1); length >= 2; --length) {
    for (int64_t begin = size - length - 1; begin >= 0; --begin) {
      if (!std::equal(ids.end() - length, ids.end(), ids.begin() + begin)) continue;
      Numbers all = ids;
      for (int32_t i = 0; i < tokens_max; ++i) all.push_back(all[static_cast<size_t>(begin + length + i)]);
      return {all.begin() + size, all.end()};
    }
  }
  return {};
}

TEST(PromptLookup, AgreesWithAPlainImplementation) {
  std::mt19937 random(3);
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    Numbers ids(random() % (round % 50 == 0 ? 1'000 : 80));
    const uint32_t vocabulary = 1 + random() % (round % 2 == 0 ? 4 : 300);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % vocabulary);
    const auto ngram_max = static_cast<int32_t>(2 + random() % 5);
    const auto tokens_max = static_cast<int32_t>(random() % 6);
    const Numbers expected = slow_lookup(ids, tokens_max, ngram_max);
    ASSERT_EQ(lookup(ids, tokens_max, ngram_max), expected) << "round " << round;
    found += expected.empty() ? 0 : 1;
  }
  EXPECT_GT(found, 5'000);
}

TEST(PromptLookup, ProposesForEveryRequestOfACall) {
  const auto drafter = make_prompt_lookup(3);
  const std::vector<TokenId> one = tokens_of({1, 2, 3, 1, 2}), two = tokens_of({7, 8, 9});
  std::vector<TokenId> first, second;
  const std::vector<DraftRequest> requests = {{SequenceId{1}, one, 2, &first}, {SequenceId{2}, two, 2, &second}};
  drafter->propose(requests);
  drafter->forget(SequenceId{1});
  EXPECT_EQ(first, tokens_of({3, 1}));
  EXPECT_TRUE(second.empty());
}

}  // namespace
}  // namespace cairn::engine
