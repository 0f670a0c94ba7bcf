/// A common bound for the bytes of many holders.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace cairn {

/// Bounds the total bytes of all shares (ByteShare). Thread-safe; never waits.
class ByteBudget {
 public:
  /// `bytes_max` >= 0.
  explicit ByteBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  int64_t bytes_max() const { return bytes_max_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Total bytes ever given back.
  int64_t given_back() const { return given_back_.load(std::memory_order_relaxed); }

 private:
  friend class ByteShare;
  bool take(int64_t bytes);
  void give(int64_t bytes) {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    given_back_.fetch_add(bytes, std::memory_order_relaxed);
  }

  const int64_t bytes_max_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> given_back_{0};
};

/// One holder's share of a budget, given back when it is destroyed. Not thread-safe, but different shares of one budget
/// may be used at once. Without a budget it can always grow.
class ByteShare {
 public:
  ByteShare() = default;
  explicit ByteShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ByteShare(ByteShare&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteShare& operator=(ByteShare&& other) noexcept;
  ~ByteShare() { shrink_to(0); }

  int64_t bytes() const { return bytes_; }
  /// Null: there is no budget.
  const std::shared_ptr<ByteBudget>& budget() const { return budget_; }
  /// Grows to `bytes`, or stays as it is if that is less. False, with nothing changed, if the budget does not have
  /// them.
  [[nodiscard]] bool grow_to(int64_t bytes);
  /// Shrinks to `bytes`, >= 0, or stays as it is if that is more.
  void shrink_to(int64_t bytes);

 private:
  std::shared_ptr<ByteBudget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace cairn
