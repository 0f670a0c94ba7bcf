#include "base/system/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
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

TEST(ThreadPool, RunsManyShortLoopsWithMoreThreadsThanCores) {
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

TEST(ThreadPool, EveryMemberTakesPart) {
  ThreadPool pool(2);
  std::atomic<int> chunks_of_member_1 = 0;
  for (int round = 0; round < 100; ++round) {
    // Each chunk waits for the other one, so a single member cannot run both.
    std::atomic<int> inside = 0;
    pool.parallel_for(2, 1, [&](int64_t, int64_t, int member) {
      inside.fetch_add(1);
      while (inside.load() < 2) std::this_thread::yield();
      chunks_of_member_1.fetch_add(member);
    });
  }
  EXPECT_EQ(chunks_of_member_1.load(), 100);
}

// Stops the thread that gets the signal, as a scheduler does that gives its core to another process.
std::atomic<bool> stopped = false, may_go_on = false;
void stop_here(int) {
  stopped = true;
  while (!may_go_on) std::this_thread::yield();
}

TEST(ThreadPool, ALoopDoesNotWaitForAMemberWithoutACore) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer holds signals back";
#endif
  ThreadPool pool(2);
  pthread_t other{};
  std::atomic<int> inside = 0;
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int member) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
    if (member == 1) other = ::pthread_self();
  });
  struct sigaction action{}, before{};
  action.sa_handler = stop_here;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(::pthread_kill(other, SIGUSR1), 0);
  while (!stopped) std::this_thread::yield();
  int64_t sum = 0;
  pool.parallel_for(1000, 1, [&](int64_t begin, int64_t, int member) { sum += member == 0 ? begin : 0; });
  EXPECT_EQ(sum, 499500);
  may_go_on = true;
  // The member works again afterwards.
  inside = 0;
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int) {
    inside.fetch_add(1);
    while (inside.load() < 2) std::this_thread::yield();
  });
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(ThreadPool, WritesOfALoopAreVisibleInTheNextOne) {
  ThreadPool pool(3);
  std::vector<int> values(64, 0);  // unsynchronised on purpose: ThreadSanitizer watches
  for (int round = 0; round < 300; ++round) {
    const int shift = round % 64;
    pool.parallel_for(64, 5, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ++values[(i + shift) % 64];
    });
  }
  for (const int value : values) EXPECT_EQ(value, 300);
}

TEST(ThreadPool, IdleMembersSleep) {
  ThreadPool pool(4);
  pool.parallel_for(16, 1, [](int64_t, int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(used() - before, std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace cairn
