/// For tests: a clock whose times are the same in every run, so that decisions that follow from time are as well.
#pragma once

#include <chrono>

#include "base/system/clock.h"

namespace cairn::engine {

/// Every call is a millisecond later than the one before. Not thread-safe.
class TickingClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return now_ += std::chrono::milliseconds(1); }
  void advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  mutable std::chrono::nanoseconds now_{0};
};

}  // namespace cairn::engine
