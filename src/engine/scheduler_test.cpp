#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <vector>

namespace cairn {
namespace {

struct Row {
  int32_t demand, rows;
  bool logits;
  bool operator==(const Row&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << "{demand " << row.demand << ", rows " << row.rows << (row.logits ? ", logits}" : "}");
}

std::vector<Row> plan(const std::vector<Demand>& demands, StepLimits limits) {
  std::vector<Share> shares;
  plan_step(demands, limits, shares);
  std::vector<Row> result;
  result.reserve(shares.size());
  for (const Share& share : shares) result.push_back({share.demand, share.rows, share.logits});
  return result;
}

Demand decode() { return {1, true}; }
Demand prompt(int32_t rows) { return {rows, false}; }
using Plan = std::vector<Row>;

TEST(Scheduler, NothingToDo) { EXPECT_EQ(plan({}, {512, 64, 256}), Plan{}); }

TEST(Scheduler, DecodeRowsComeFirst) {
  EXPECT_EQ(plan({prompt(10), decode(), prompt(5), decode()}, {512, 64, 256}),
            (Plan{{1, 1, true}, {3, 1, true}, {0, 10, true}, {2, 5, true}}));
}

TEST(Scheduler, ALongPromptGoesInChunksBesideDecoding) {
  EXPECT_EQ(plan({decode(), prompt(1'000)}, {512, 64, 256}), (Plan{{0, 1, true}, {1, 256, false}}));
  EXPECT_EQ(plan({decode(), prompt(256)}, {512, 64, 256}), (Plan{{0, 1, true}, {1, 256, true}}));
  EXPECT_EQ(plan({decode(), prompt(1'000)}, {100, 64, 256}), (Plan{{0, 1, true}, {1, 99, false}}));
}

TEST(Scheduler, PromptsShareAChunkAndTheRestGoesToTheFirst) {
  EXPECT_EQ(plan({prompt(1'000), prompt(1'000)}, {512, 64, 256}), (Plan{{0, 128, false}, {1, 128, false}}));
  EXPECT_EQ(plan({prompt(1'000), prompt(28)}, {512, 64, 256}), (Plan{{0, 228, false}, {1, 28, true}}));
  EXPECT_EQ(plan({prompt(28), prompt(1'000), prompt(300)}, {512, 64, 256}),
            (Plan{{0, 28, true}, {1, 143, false}, {2, 85, false}}));
}

TEST(Scheduler, MorePromptsThanRowsAreServedInOrder) {
  EXPECT_EQ(plan({prompt(4), prompt(4), prompt(4)}, {512, 64, 2}), (Plan{{0, 1, false}, {1, 1, false}}));
}

TEST(Scheduler, LogitRowsAreNeverExceeded) {
  EXPECT_EQ(plan({decode(), decode(), decode()}, {512, 2, 256}), (Plan{{0, 1, true}, {1, 1, true}}));
  // The prompt's last row would need logits: it waits.
  EXPECT_EQ(plan({decode(), prompt(8), prompt(1)}, {512, 1, 256}), (Plan{{0, 1, true}, {1, 7, false}}));
}

TEST(Scheduler, RandomPlansKeepTheirPromises) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    const StepLimits limits{static_cast<int32_t>(1 + random() % 40), static_cast<int32_t>(1 + random() % 12),
                            static_cast<int32_t>(1 + random() % 60)};
    std::vector<Demand> demands(1 + random() % static_cast<size_t>(std::min(limits.rows_max, limits.logit_rows_max)));
    for (Demand& demand : demands) {
      demand = random() % 2 ? decode() : prompt(static_cast<int32_t>(1 + random() % 80));
    }
    std::vector<Share> shares;
    plan_step(demands, limits, shares);
    int32_t rows = 0, logits = 0, chunk = 0, decodes = 0;
    std::vector<bool> seen(demands.size(), false);
    bool prompts_began = false;
    for (const Share& share : shares) {
      const Demand& demand = demands.at(static_cast<size_t>(share.demand));
      ASSERT_FALSE(seen[static_cast<size_t>(share.demand)]);
      seen[static_cast<size_t>(share.demand)] = true;
      ASSERT_GE(share.rows, 1);
      ASSERT_LE(share.rows, demand.rows);
      ASSERT_EQ(share.logits, share.rows == demand.rows);
      rows += share.rows;
      logits += share.logits;
      decodes += demand.decode;
      if (!demand.decode) chunk += share.rows;
      ASSERT_FALSE(demand.decode && prompts_began);
      prompts_began |= !demand.decode;
    }
    ASSERT_FALSE(shares.empty());
    ASSERT_LE(rows, limits.rows_max);
    ASSERT_LE(logits, limits.logit_rows_max);
    ASSERT_LE(chunk, limits.chunk_rows_max);
    ASSERT_EQ(decodes, std::count_if(demands.begin(), demands.end(), [](const Demand& d) { return d.decode; }));
  }
}

}  // namespace
}  // namespace cairn
