#include "tokenizer/models/merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn::tokenizer {
namespace {

using Rules = std::map<std::pair<uint32_t, uint32_t>, Merge>;

// The definition, implemented plainly in quadratic time.
std::vector<uint32_t> merge_slowly(std::vector<uint32_t> ids, const Rules& rules) {
  while (true) {
    Merge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && rule->second.priority < best.priority) {
        best = rule->second;
        at = i;
      }
    }
    if (best.priority == kNoMerge) return ids;
    ids[at] = best.merged;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::vector<uint32_t> merge_fast(const std::vector<uint32_t>& ids, const Rules& rules, MergeScratch& scratch) {
  scratch.symbols.clear();
  for (size_t i = 0; i < ids.size(); ++i) scratch.add(ids[i], static_cast<uint32_t>(i), 1);
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    const auto rule = rules.find({left.id, right.id});
    return rule == rules.end() ? Merge{} : rule->second;
  });
  std::vector<uint32_t> out;
  uint32_t end = 0;
  for (int32_t i = ids.empty() ? -1 : 0; i >= 0; i = scratch.symbols[i].next) {
    const Symbol& symbol = scratch.symbols[i];
    EXPECT_EQ(symbol.begin, end);
    end += symbol.length;
    out.push_back(symbol.id);
  }
  EXPECT_EQ(end, ids.size());
  return out;
}

TEST(Merge, AgreesWithAPlainImplementation) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  MergeScratch scratch;
  for (int round = 0; round < 400; ++round) {
    Rules rules;
    const uint32_t priorities = round % 2 == 0 ? 1000 : 3;  // with few priorities, many pairs are equal
    for (uint32_t merged = 4; merged < 20; ++merged) {
      rules[{random() % merged, random() % merged}] = {static_cast<uint32_t>(random() % priorities), merged};
    }
    std::vector<uint32_t> ids(random() % (4 * kScanSymbolsMax));
    for (uint32_t& id : ids) id = random() % 4;
    EXPECT_EQ(merge_fast(ids, rules, scratch), merge_slowly(ids, rules));
  }
}

TEST(Merge, OneLongWordTakesALinearNumberOfSteps) {
  constexpr size_t kSymbols = 1 << 20;
  Rules rules;
  for (uint32_t i = 0; i < 6; ++i) rules[{i, i}] = {i, i + 1};
  MergeScratch scratch;
  const std::vector<uint32_t> merged = merge_fast(std::vector<uint32_t>(kSymbols, 0), rules, scratch);
  EXPECT_EQ(merged, std::vector<uint32_t>(kSymbols >> 6, 6));
  EXPECT_LT(scratch.steps, 4 * kSymbols);
}

}  // namespace
}  // namespace cairn::tokenizer
