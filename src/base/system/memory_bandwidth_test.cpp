#include "base/system/memory_bandwidth.h"

#include <gtest/gtest.h>

#include "base/system/machine.h"

namespace cairn {
namespace {

TEST(MemoryBandwidth, IsMeasuredOnceAndPlausible) {
  const int64_t first = memory_bandwidth();
  EXPECT_EQ(memory_bandwidth(), first);
  if (available_memory_bytes() < kBandwidthBytes * kBandwidthFreeShare) {
    EXPECT_EQ(first, 0);
    return;
  }
  EXPECT_GT(first, 100'000'000);
  EXPECT_LT(first, int64_t{1} << 45);
}

}  // namespace
}  // namespace cairn
