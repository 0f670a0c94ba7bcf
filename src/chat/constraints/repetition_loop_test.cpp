#include "chat/constraints/repetition_loop.h"

#include <gtest/gtest.h>

#include <random>

namespace cairn::chat {
namespace {

TEST(RepetitionDetector, DetectsCyclesOfEveryLength) {
  for (const int period : {1, 2, 3, 17, 256, 1'000, 1'024}) {
    RepetitionDetector repetition;
    std::mt19937 random(5);
    for (int i = 0; i < 500; ++i) repetition.push(TokenId{static_cast<int32_t>(random() % 50'000)});
    int first = -1;
    for (int i = 0; i < 5 * period; ++i) {
      const int32_t circling = repetition.push(TokenId{100'000 + i % period});
      if (circling > 0 && first < 0) first = i + 1;
      if (i + 1 >= kCycleRepeats * period) {
        EXPECT_GE(circling, kCycleRepeats * period) << period;
      }
    }
    EXPECT_EQ(first, kCycleRepeats * period);
    EXPECT_EQ(repetition.push(TokenId{7}), 0);
  }
}

TEST(RepetitionDetector, DetectsNoCycleIfOneTokenDiffers) {
  RepetitionDetector repetition;
  for (int i = 0; i < 10'000; ++i) {
    // The third token of every third copy differs.
    const bool differs = i % 30 == 20;
    EXPECT_EQ(repetition.push(TokenId{differs ? 1'000 + i : i % 10}), 0) << i;
  }
}

}  // namespace
}  // namespace cairn::chat
