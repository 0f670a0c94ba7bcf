/// How much of the time engines compute, so that a machine stays cool and quiet, or its battery lasts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>

namespace cairn::engine {

class RequestQueue;

/// Percent of the time; 100: all of it.
inline constexpr int32_t kPowerPercentMin = 1;
inline constexpr int32_t kPowerPercentMax = 100;

/// One for all engines of a program. Thread-safe.
class PowerLimit {
 public:
  /// Both within kPowerPercentMin .. kPowerPercentMax.
  explicit PowerLimit(int32_t percent = kPowerPercentMax, int32_t on_battery_percent = kPowerPercentMax)
      : percent_(percent), on_battery_percent_(on_battery_percent) {}

  int32_t percent() const { return percent_.load(std::memory_order_relaxed); }
  int32_t on_battery_percent() const { return on_battery_percent_.load(std::memory_order_relaxed); }
  bool on_battery() const { return on_battery_.load(std::memory_order_relaxed); }
  void set_percent(int32_t percent) { percent_.store(percent, std::memory_order_relaxed); }
  void set_on_battery_percent(int32_t percent) { on_battery_percent_.store(percent, std::memory_order_relaxed); }
  void set_on_battery(bool on_battery) { on_battery_.store(on_battery, std::memory_order_relaxed); }

  /// The percentage that holds now: on battery the smaller one of the two.
  int32_t effective_percent() const;
  /// How long to rest after so much time of computing.
  std::chrono::nanoseconds rest_after(std::chrono::nanoseconds busy) const;

 private:
  std::atomic<int32_t> percent_;
  std::atomic<int32_t> on_battery_percent_;
  std::atomic<bool> on_battery_ = false;
};

/// Rests after a step that took `busy`, without using a processor, and adds the time to `rested_ns`. A limit that
/// changes meanwhile holds at once, and a queue that is stopped ends the rest. `limit` null: there is none.
void rest_after_step(const PowerLimit* limit, std::chrono::nanoseconds busy, RequestQueue& queue,
                     std::atomic<int64_t>& rested_ns);

/// Whether a battery is all that powers this machine. `supplies` has a folder for each power supply, as the kernel
/// describes them (Documentation/ABI/testing/sysfs-class-power); without any, the machine is on mains.
bool runs_on_battery(const std::filesystem::path& supplies = "/sys/class/power_supply");

}  // namespace cairn::engine
