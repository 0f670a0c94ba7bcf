#include "base/histogram.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr std::array kBounds{1.0, 2.5};

TEST(Histogram, PutsValuesIntoTheRangeWhoseUpperBoundTheyDoNotExceed) {
  Histogram histogram(kBounds);
  for (const double value : {0.0, 1.0, 1.1, 2.5, 2.6, 100.0}) histogram.add(value);
  const HistogramCounts read = histogram.counts();
  EXPECT_EQ(read.bounds.size(), 2u);
  EXPECT_EQ(read.counts[0], 2);
  EXPECT_EQ(read.counts[1], 2);
  EXPECT_EQ(read.counts[2], 2);
  EXPECT_DOUBLE_EQ(read.sum, 107.2);
}

TEST(Histogram, HasNoMoreBoundsThanItHasRoomFor) {
  for (const std::span<const double> bounds :
       {std::span<const double>(kRequestSecondsBounds), std::span<const double>(kStepSecondsBounds),
        std::span<const double>(kSizeBounds)}) {
    EXPECT_LE(bounds.size(), kHistogramBoundsMax);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
  }
}

}  // namespace
}  // namespace cairn
