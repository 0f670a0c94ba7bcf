#include "api/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "api/service.h"

namespace cairn::api {
namespace {

TEST(Workers, SmallJobsRunWhileLargeOnesTakeAllThatTheyMay) {
  Workers workers(2, 100);
  std::latch large_ends(1), large_began(1), small_ran(3);
  std::atomic<int> large_at_once = 0, large_max = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(workers.submit(
        [&, i] {
          large_max = std::max(large_max.load(), large_at_once.fetch_add(1) + 1);
          if (i == 0) large_began.count_down();
          large_ends.wait();
          large_at_once.fetch_sub(1);
        },
        kSmallJobBytes + 1));
  }
  large_began.wait();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(workers.submit([&] { small_ran.count_down(); }, 10));
  small_ran.wait();  // the first thread's
  large_ends.count_down();
  workers.stop();
  EXPECT_EQ(large_max, 1);
}

TEST(Workers, ALargeJobDoesNotWaitForAnother) {
  Workers workers(kWorkerThreads, 100);
  std::latch other_ran(1), ran(1);
  ASSERT_TRUE(workers.submit(
      [&] {
        other_ran.wait();
        ran.count_down();
      },
      40 * kSmallJobBytes));
  ASSERT_TRUE(workers.submit([&] { other_ran.count_down(); }, 2 * kSmallJobBytes));
  ran.wait();
}

TEST(Workers, AMuchSmallerJobOvertakesAndOneOfTheSameSizeDoesNot) {
  Workers workers(1, 100);
  std::latch first_ends(1), all_ran(5);
  std::string order;  // of one thread
  ASSERT_TRUE(workers.submit([&] { first_ends.wait(); }, 0));
  const auto add = [&](char name, int64_t bytes) {
    ASSERT_TRUE(workers.submit(
        [&, name] {
          order += name;
          all_ran.count_down();
        },
        bytes));
  };
  constexpr int64_t kMinute = 60'000'000'000 / Workers::kJobTimePerByte.count();
  add('a', 2 * kMinute);
  add('b', kMinute);
  add('c', kMinute);
  add('d', 100);
  add('e', 100);
  first_ends.count_down();
  all_ran.wait();
  EXPECT_EQ(order, "debca");
}

TEST(Workers, OnlySoManyWaitAndAfterTheEndNobody) {
  auto held = std::make_shared<int>(1);
  Workers workers(1, 2);
  std::latch began(1), ends(1);
  ASSERT_TRUE(workers.submit(
      [&] {
        began.count_down();
        ends.wait();
      },
      0));
  began.wait();
  std::atomic<int> ran = 0;
  EXPECT_TRUE(workers.submit([&, held] { ++ran; }, 0));
  EXPECT_TRUE(workers.submit([&, held] { ++ran; }, kSmallJobBytes + 1));
  EXPECT_FALSE(workers.submit([&, held] { ++ran; }, 0));
  EXPECT_EQ(held.use_count(), 3);
  std::thread stopping([&] { workers.stop(); });
  while (workers.submit([] {}, 0) || held.use_count() > 1) std::this_thread::yield();
  ends.count_down();
  stopping.join();
  EXPECT_EQ(ran, 0) << "what waits is dropped";
  workers.stop();
}

TEST(Workers, AnIdleThreadHasTimeForOtherThings) {
  std::atomic<int> idled = 0;
  Workers workers(2, 10, [&] { ++idled; });
  while (idled == 0) std::this_thread::yield();
}

}  // namespace
}  // namespace cairn::api
