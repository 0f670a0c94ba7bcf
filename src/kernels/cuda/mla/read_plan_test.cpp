// Tests which rows queries of MlaOperations read on the GPU, and in which tiles. Needs no GPU.
#include "kernels/cuda/mla/read_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace cairn::kernels::cuda {
namespace {

TEST(LatentPlan, AQueryReadsTheCompletedRowsOfItsWindowOrSelection) {
  const auto same = [](ReadRows a, ReadRows b) { return a.first == b.first && a.count == b.count; };
  EXPECT_TRUE(same(read_rows(0, 1, 0, 0), {0, 1}));
  EXPECT_TRUE(same(read_rows(99, 1, 0, 0), {0, 100}));
  EXPECT_TRUE(same(read_rows(99, 1, 40, 0), {60, 40}));
  EXPECT_TRUE(same(read_rows(30, 1, 40, 0), {0, 31}));
  EXPECT_TRUE(same(read_rows(2, 4, 0, 0), {0, 0}));
  EXPECT_TRUE(same(read_rows(3, 4, 0, 0), {0, 1}));
  EXPECT_TRUE(same(read_rows(99, 4, 7, 0), {18, 7}));
  EXPECT_TRUE(same(read_rows(99, 4, 7, 20), {0, 20})) << "of those that were chosen all are read";
  EXPECT_TRUE(same(read_rows(10, 4, 0, 20), {0, 2}));
}

TEST(LatentPlan, EveryRowIsInExactlyOneTile) {
  for (const int32_t first : {0, 1, 31, 32, 33, 100}) {
    for (const int32_t second : {0, 1, 31, 32, 33, 100}) {
      ReadList list;
      list.add(0, {7, first});
      list.add(1, {5, second});
      std::vector<int32_t> seen[2];
      for (int32_t number = 0; number < list.end; number += kLatentTile) {
        const ReadTile tile = tile_at(list, 2, number);
        EXPECT_GT(tile.count, 0) << "the last tile is not empty, and none between";
        for (int32_t i = 0; i < tile.count; ++i) seen[tile.source].push_back(tile.first + i);
      }
      ASSERT_EQ(std::ssize(seen[0]), first);
      ASSERT_EQ(std::ssize(seen[1]), second);
      for (int32_t i = 0; i < first; ++i) EXPECT_EQ(seen[0][static_cast<size_t>(i)], 7 + i);
      for (int32_t i = 0; i < second; ++i) EXPECT_EQ(seen[1][static_cast<size_t>(i)], 5 + i);
    }
  }
}

TEST(LatentPlan, CountsTheRowsThatPositionsComplete) {
  EXPECT_EQ(completed_rows(0, 3, 4), 0);
  EXPECT_EQ(completed_rows(0, 4, 4), 1);
  EXPECT_EQ(completed_rows(3, 4, 4), 1);
  EXPECT_EQ(completed_rows(4, 7, 4), 0);
  EXPECT_EQ(completed_rows(5, 140, 128), 1);
  EXPECT_EQ(completed_rows(5, 9, 1), 4);
}

}  // namespace
}  // namespace cairn::kernels::cuda
