#include "kernels/cpu/thread_team.h"

#include <gtest/gtest.h>

namespace cairn::kernels::cpu {
namespace {

TEST(ThreadTeam, ChunksAreBalanced) {
  const ThreadTeam two(2);
  EXPECT_EQ(two.balanced_chunk(2048, 96, 32), 64);  // 16 chunks each, rather than 11 and 10 1/3
  EXPECT_EQ(two.balanced_chunk(8192, 288, 32), 256);
  EXPECT_EQ(two.balanced_chunk(2048, 128, 32), 128);
  EXPECT_EQ(two.balanced_chunk(192, 96, 32), 96);
  EXPECT_EQ(two.balanced_chunk(200, 96, 32), 96);    // one member gets 104 rows: no chunk size does better
  EXPECT_EQ(two.balanced_chunk(100, 288, 32), 288);  // too little work for two chunks
  EXPECT_EQ(ThreadTeam(1).balanced_chunk(2048, 96, 32), 96);
  EXPECT_EQ(ThreadTeam(3).balanced_chunk(2048, 96, 32), 96);
}

}  // namespace
}  // namespace cairn::kernels::cpu
