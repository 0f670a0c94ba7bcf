/// Monotonic time in nanoseconds for the engine, replaceable in tests.
#pragma once

#include <chrono>
#include <cstdint>

namespace cairn {

/// A source of monotonic time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::nanoseconds now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace cairn
