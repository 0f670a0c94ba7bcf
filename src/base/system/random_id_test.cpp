#include "base/system/random_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(RandomId, IsHexadecimalAndUniqueAcrossThreads) {
  constexpr int kThreads = 4, kIds = 2'000;  // more than one thread reads ahead
  std::mutex mutex;
  std::set<std::string> ids;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int id = 0; id < kIds; ++id) {
        std::string made = random_id();
        const std::lock_guard lock(mutex);
        ids.insert(std::move(made));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), static_cast<size_t>(kThreads * kIds));
  EXPECT_THAT(*ids.begin(), testing::MatchesRegex("[0-9a-f]{32}"));
}

// 64,000 bits: half of them are set, within 8 standard deviations (126 each).
TEST(RandomId, HalfOfTheBitsAreSet) {
  int set = 0;
  for (int i = 0; i < 1'000; ++i) set += std::popcount(secure_random());
  EXPECT_NEAR(set, 32'000, 1'012);
}

TEST(LoggedId, HasThePrefixAndEightDigitsOfAMadeIdAndOtherTextsWhole) {
  EXPECT_EQ(logged_id("req_0123456789abcdef0123456789abcdef"), "req_01234567");
  EXPECT_EQ(logged_id("0123456789abcdef0123456789abcdef"), "01234567");
  for (const char* other : {"", "1", "req_1", "req_0123456789abcdef0123456789abcdeg"})
    EXPECT_EQ(logged_id(other), other);
}

}  // namespace
}  // namespace cairn
