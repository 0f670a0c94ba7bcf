/// The way in: requests of many clients, bounded, taken by the engine's thread in order of priority and deadline.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "engine/engine.h"
#include "engine/event_channel.h"
#include "engine/tenants.h"

namespace cairn {

/// A request that has been checked.
struct Submission {
  GenerateRequest request;
  int32_t tokens_max = 0;   ///< of prompt and answer
  int64_t arrival_ns = 0;   ///< of the engine's clock
  int64_t deadline_ns = 0;  ///< of its first token
  std::shared_ptr<EventChannel> channel;
  TenantTicket ticket;
};

/// Thread-safe; entries are taken out by one thread.
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
  /// Blocks for `timeout`, until a request is pushed or until the queue is stopped.
  void wait_for(std::chrono::milliseconds timeout);
  /// The earliest deadline of the priority; none if there is no such request.
  std::optional<int64_t> first_deadline(Priority priority);
  /// Takes out the request with the earliest deadline of the priority (the first of equal ones); null if there is none.
  std::unique_ptr<Submission> pop(Priority priority);
  /// Takes out all that `select` chooses, in order of their coming.
  std::vector<std::unique_ptr<Submission>> take(FunctionRef<bool(const Submission&)> select);

 private:
  std::deque<std::unique_ptr<Submission>>::iterator first(Priority priority);

  const int32_t size_max_;
  std::mutex mutex_;  // guards entries_; size_ and stopped_ are written under it
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Submission>> entries_;
  std::atomic<int32_t> size_ = 0;
  std::atomic<bool> stopped_ = false;
};

}  // namespace cairn
