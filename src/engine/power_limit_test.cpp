#include "engine/power_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "engine/scheduling/request_queue.h"

namespace cairn::engine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(PowerLimit, TheRestIsTheShareOfTheTimeThatIsLeft) {
  PowerLimit limit;
  EXPECT_EQ(limit.rest_after(10ms), 0ms);
  limit.set_percent(50);
  EXPECT_EQ(limit.rest_after(10ms), 10ms);
  limit.set_percent(25);
  EXPECT_EQ(limit.rest_after(10ms), 30ms);
  limit.set_percent(kPowerPercentMin);
  EXPECT_EQ(limit.rest_after(10ms), 990ms);
}

TEST(PowerLimit, OnBatteryTheSmallerOneHolds) {
  PowerLimit limit(80, 40);
  EXPECT_EQ(limit.effective_percent(), 80);
  limit.set_on_battery(true);
  EXPECT_EQ(limit.effective_percent(), 40);
  limit.set_percent(20);
  EXPECT_EQ(limit.effective_percent(), 20);
}

std::chrono::microseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(PowerLimit, ARestTakesItsTimeAndNoProcessor) {
  const PowerLimit limit(50);
  RequestQueue queue(1);
  std::atomic<int64_t> rested = 0;
  const auto begin = Clock::now();
  const auto busy = processor_time();
  rest_after_step(&limit, 250ms, queue, rested);
  EXPECT_GE(Clock::now() - begin, 250ms);
  EXPECT_GE(std::chrono::nanoseconds(rested), 250ms);
  EXPECT_LT(processor_time() - busy, 50ms);
  rest_after_step(nullptr, 1h, queue, rested);  // no limit, no rest
  EXPECT_LT(Clock::now() - begin, 30s);
}

TEST(PowerLimit, AChangeHoldsAtOnceAndTheEndOfTheQueueEndsARest) {
  PowerLimit limit(1);
  RequestQueue queue(1);
  std::atomic<int64_t> rested = 0;
  std::thread changes([&] {
    std::this_thread::sleep_for(50ms);
    limit.set_percent(100);
  });
  const auto begin = Clock::now();
  rest_after_step(&limit, 10s, queue, rested);  // 990 s
  changes.join();
  limit.set_percent(1);
  std::thread stops([&] {
    std::this_thread::sleep_for(50ms);
    queue.stop();
  });
  rest_after_step(&limit, 10s, queue, rested);
  stops.join();
  EXPECT_LT(Clock::now() - begin, 60s);
}

class PowerSupplies : public testing::Test {
 protected:
  ~PowerSupplies() override { std::filesystem::remove_all(folder_); }
  void add(const std::string& supply, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(folder_ / supply);
    std::ofstream(folder_ / supply / file) << text << "\n";
  }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("power_supplies." + std::to_string(::getpid()));
};

TEST_F(PowerSupplies, ABatteryThatDischargesCountsUnlessMainsAreThere) {
  EXPECT_FALSE(runs_on_battery(folder_)) << "no supplies are known";
  add("BAT0", "type", "Battery");
  add("BAT0", "status", "Discharging");
  EXPECT_TRUE(runs_on_battery(folder_));
  add("AC", "type", "Mains");
  add("AC", "online", "0");
  EXPECT_TRUE(runs_on_battery(folder_));
  add("AC", "online", "1");
  EXPECT_FALSE(runs_on_battery(folder_));
  add("AC", "online", "0");
  add("BAT0", "status", "Charging");
  EXPECT_FALSE(runs_on_battery(folder_));
  add("mouse", "type", "Battery");
  add("mouse", "scope", "Device");
  add("mouse", "status", "Discharging");
  EXPECT_FALSE(runs_on_battery(folder_));
}

}  // namespace
}  // namespace cairn::engine
