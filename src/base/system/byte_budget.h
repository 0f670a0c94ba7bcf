/// One bound for the bytes that many holders have at once, whatever each of them is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace cairn {

/// How many bytes may be held in all. Thread-safe; nothing waits. Shares of it are ByteShares.
class ByteBudget {
 public:
  /// `bytes_max` >= 0.
  explicit ByteBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  int64_t bytes_max() const { return bytes_max_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  /// All that was ever given back.
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

/// What one holder has of a budget, given back when it goes. One thread at a time; of one budget, many at once. Without
/// a budget it always grows.
class ByteShare {
 public:
  ByteShare() = default;
  explicit ByteShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ByteShare(ByteShare&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  ByteShare& operator=(ByteShare&& other) noexcept;
  ~ByteShare() { shrink_to(0); }

  int64_t bytes() const { return bytes_; }
  /// Null: there is none.
  const std::shared_ptr<ByteBudget>& budget() const { return budget_; }
  /// Has `bytes` afterwards, or as many as before if that is more. False, and nothing has changed: they are not left.
  [[nodiscard]] bool grow_to(int64_t bytes);
  /// Has `bytes` afterwards, >= 0, or as many as before if that is less.
  void shrink_to(int64_t bytes);

 private:
  std::shared_ptr<ByteBudget> budget_;
  int64_t bytes_ = 0;
};

}  // namespace cairn
