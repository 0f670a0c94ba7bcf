/// The way in: requests of many clients, bounded, taken by the engine's thread in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "engine/event_channel.h"

namespace cairn {

/// A request that has been checked.
struct Submission {
  GenerateRequest request;
  int32_t tokens_max = 0;  ///< of prompt and answer
  int32_t pages_max = 0;   ///< to hold them
  std::shared_ptr<EventChannel> channel;
};

/// Thread-safe.
class RequestQueue {
 public:
  explicit RequestQueue(int32_t size_max) : size_max_(size_max) {}

  /// Errors: kQueueFull, kUnavailable (after stop).
  Result<void> push(std::unique_ptr<Submission> submission);
  int32_t size() const { return size_.load(std::memory_order_acquire); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  void stop();

  /// Blocks until there is a request or the queue is stopped.
  void wait();
  /// The first one if `accept` says so; null otherwise. `accept` is called with the queue locked.
  std::unique_ptr<Submission> pop_if(FunctionRef<bool(const Submission&)> accept);
  /// Takes out all that `select` chooses, in order.
  std::vector<std::unique_ptr<Submission>> take(FunctionRef<bool(const Submission&)> select);

 private:
  const int32_t size_max_;
  std::mutex mutex_;  // guards entries_; size_ and stopped_ are written under it
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Submission>> entries_;
  std::atomic<int32_t> size_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace cairn
