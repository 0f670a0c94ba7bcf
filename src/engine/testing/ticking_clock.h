/// For tests: a clock with which what seems to pay, and so what is drafted, is the same in every run.
#pragma once

#include <chrono>

#include "base/system/clock.h"

namespace cairn {

/// Every look at it is a millisecond later. One thread.
class TickingClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return now_ += std::chrono::milliseconds(1); }
  void advance(std::chrono::nanoseconds by) { now_ += by; }

 private:
  mutable std::chrono::nanoseconds now_{0};
};

}  // namespace cairn
