#include "base/system/byte_budget.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(ByteBudget, SharesGrowUntilTheBudgetIsSpentAndGiveTheirBytesBack) {
  const auto budget = std::make_shared<ByteBudget>(100);
  ByteShare first(budget);
  EXPECT_TRUE(first.grow_to(60));
  {
    ByteShare second(budget);
    EXPECT_FALSE(second.grow_to(41));
    EXPECT_EQ(second.bytes(), 0);
    EXPECT_TRUE(second.grow_to(40));
    EXPECT_EQ(budget->used(), 100);
    EXPECT_FALSE(first.grow_to(61));
    EXPECT_EQ(first.bytes(), 60);
  }
  EXPECT_EQ(budget->used(), 60);
  EXPECT_TRUE(first.grow_to(10)) << "it has more already";
  EXPECT_EQ(budget->used(), 60);
  first.shrink_to(70);
  EXPECT_EQ(budget->used(), 60);
  first.shrink_to(5);
  EXPECT_EQ(budget->used(), 5);
  EXPECT_EQ(budget->given_back(), 95);
}

TEST(ByteBudget, AMovedShareIsCountedOnce) {
  const auto budget = std::make_shared<ByteBudget>(100);
  ByteShare first(budget);
  ASSERT_TRUE(first.grow_to(30));
  ByteShare second = std::move(first);
  EXPECT_EQ(second.bytes(), 30);
  EXPECT_EQ(budget->used(), 30);
  ByteShare third(budget);
  ASSERT_TRUE(third.grow_to(50));
  third = std::move(second);
  EXPECT_EQ(budget->used(), 30) << "what it had before is given back";
  third = ByteShare();
  EXPECT_EQ(budget->used(), 0);
}

TEST(ByteBudget, WithoutABudgetAShareAlwaysGrows) {
  ByteShare share;
  EXPECT_TRUE(share.grow_to(std::numeric_limits<int64_t>::max()));
  share.shrink_to(0);
  EXPECT_EQ(share.bytes(), 0);
}

TEST(ByteBudget, SharesOnManyThreadsNeverExceedTheBudget) {
  const auto budget = std::make_shared<ByteBudget>(10);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2'000; ++round) {
        ByteShare share(budget);
        for (int64_t bytes = 1; share.grow_to(bytes) && bytes < 8; ++bytes) EXPECT_LE(budget->used(), 10);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget->used(), 0);
}

}  // namespace
}  // namespace cairn
