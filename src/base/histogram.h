/// Counts of values in ranges: one thread adds values, any thread reads. Adding takes no lock and allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn {

inline constexpr size_t kHistogramBoundsMax = 20;

/// Upper bounds of times, in seconds: of requests and their first tokens, and of what happens in every step.
inline constexpr std::array kRequestSecondsBounds{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,   0.2,  0.5,
                                                  1.0,   2.0,   5.0,   10.0, 20.0, 60.0, 120.0, 300.0};
inline constexpr std::array kStepSecondsBounds{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03,
                                               0.05,   0.075,  0.1,    0.2,   0.5,   1.0,   2.0,  5.0};
/// Upper bounds of numbers of rows or sequences.
inline constexpr std::array kSizeBounds{1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0};

/// What a histogram held when it was read.
struct HistogramCounts {
  std::span<const double> bounds;  ///< upper bounds, inclusive, of all ranges but the last, which has none
  std::array<int64_t, kHistogramBoundsMax + 1> counts{};  ///< of bounds.size() + 1 ranges
  double sum = 0;                                         ///< of all values
};

class Histogram {
 public:
  /// `bounds` ascend, are at most kHistogramBoundsMax, and outlive this.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  /// One thread.
  void add(double value) {
    size_t range = 0;
    while (range < bounds_.size() && value > bounds_[range]) ++range;
    std::atomic<int64_t>& count = counts_[range];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }

  /// Any thread. A value that is being added may be in the counts and not yet in the sum.
  HistogramCounts counts() const {
    HistogramCounts read{.bounds = bounds_};
    for (size_t range = 0; range <= bounds_.size(); ++range)
      read.counts[range] = counts_[range].load(std::memory_order_relaxed);
    read.sum = sum_.load(std::memory_order_relaxed);
    return read;
  }

 private:
  const std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kHistogramBoundsMax + 1> counts_{};
  std::atomic<double> sum_ = 0;
};

}  // namespace cairn
