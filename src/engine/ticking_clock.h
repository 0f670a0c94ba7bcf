/// For tests: a clock with which what seems to pay, and so what is guessed, is the same in every run.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace cairn {

/// Every look at it is a millisecond later. One thread.
class TickingClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return std::chrono::milliseconds(++looks_); }

 private:
  mutable int64_t looks_ = 0;
};

}  // namespace cairn
