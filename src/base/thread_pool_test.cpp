#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace cairn {
namespace {

TEST(ThreadPool, RunsEveryIndexOnceWhateverTheSizes) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(count);
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int member) {
          ASSERT_LT(begin, end);
          ASSERT_LE(end - begin, grain);
          ASSERT_TRUE(member >= 0 && member < threads);
          for (int64_t i = begin; i < end; ++i) visits[i].fetch_add(1);
        });
        for (const auto& visit : visits) ASSERT_EQ(visit.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, ManyShortLoopsWithMoreThreadsThanCores) {
  ThreadPool pool(8);
  std::atomic<int64_t> sum = 0;
  for (int round = 0; round < 2000; ++round) {
    pool.parallel_for(16, 1, [&](int64_t begin, int64_t, int) { sum.fetch_add(begin); });
  }
  EXPECT_EQ(sum.load(), 2000 * 120);
}

TEST(ThreadPool, AMemberNeverRunsTwoChunksAtOnce) {
  ThreadPool pool(4);
  std::vector<int> plain(4);  // unsynchronised on purpose: ThreadSanitizer watches
  pool.parallel_for(10000, 1, [&](int64_t, int64_t, int member) { ++plain[member]; });
  EXPECT_EQ(plain[0] + plain[1] + plain[2] + plain[3], 10000);
}

}  // namespace
}  // namespace cairn
