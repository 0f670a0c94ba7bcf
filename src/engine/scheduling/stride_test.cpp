#include "engine/scheduling/stride.h"

#include <gtest/gtest.h>

namespace cairn::engine {
namespace {

TEST(Stride, ClassesShareByWeight) {
  Stride stride;
  EXPECT_EQ(stride.take_one({false, true}), Priority::kBatch);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(stride.take_one({false, true}), Priority::kBatch);
  int interactive = 0;
  for (int i = 0; i < 100; ++i) interactive += stride.take_one({true, true}) == Priority::kInteractive ? 1 : 0;
  EXPECT_NEAR(interactive, 80, 2);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(stride.take_one({true, false}), Priority::kInteractive);
  interactive = 0;
  for (int i = 0; i < 100; ++i) interactive += stride.take_one({true, true}) == Priority::kInteractive ? 1 : 0;
  EXPECT_NEAR(interactive, 80, 2);
}

}  // namespace
}  // namespace cairn::engine
