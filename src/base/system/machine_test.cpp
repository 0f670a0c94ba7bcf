#include "base/system/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace cairn {
namespace {

TEST(Machine, UsableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Machine, AvailableMemoryIsPlausible) {
  EXPECT_GT(available_memory_bytes(), int64_t{1} << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

TEST(Machine, AnInstructionSetImpliesTheOnesThatItExtends) {
  if (cpu_features().avx512_vnni || cpu_features().avx_vnni) {
    EXPECT_TRUE(cpu_features().avx2_fma_f16c);
  }
  if (cpu_features().avx512_bf16) {
    EXPECT_TRUE(cpu_features().avx512_vnni);
  }
}

}  // namespace
}  // namespace cairn
