/// The way in: requests of many clients, bounded, taken by the engine's thread in the order that it asks for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/function_ref.h"
#include "engine/event.h"
#include "engine/output/event_channel.h"
#include "engine/request.h"
#include "engine/scheduling/tenants.h"

namespace cairn {

/// A request that has been checked.
struct Submission {
  GenerateRequest request;
  Party party;              ///< of the request's client and tenant
  int32_t tokens_max = 0;   ///< of prompt and answer
  int64_t arrival_ns = 0;   ///< of the engine's clock
  int64_t deadline_ns = 0;  ///< of its first token
  std::shared_ptr<EventChannel> channel;
  TenantTicket ticket;
};

/// What the order of requests follows from.
struct Waiting {
  Party party;
  int64_t deadline_ns = 0;
};

/// Thread-safe; entries are taken out by one thread, and by push.
class RequestQueue {
 public:
  /// Whether `a` goes before `b`: a strict weak order. Of equal ones the first to come goes first.
  using Before = FunctionRef<bool(const Waiting& a, const Waiting& b)>;

  explicit RequestQueue(int32_t size_max) : size_max_(size_max) {}

  /// Nobody fills the queue alone: where it is full, a request takes the place of the newest one of the client that
  /// has most waiting (or, among its own client's, of the tenant that has), if that has two more at least; so both have
  /// as much then, or the other still has more. What is returned is that one, which is to be answered kQueueFull; null
  /// while there is room. (RFC 8290, 4.1.2 drops from the fattest queue as well.) Errors: kQueueFull, kUnavailable
  /// (after stop).
  Result<std::unique_ptr<Submission>> push(std::unique_ptr<Submission> submission);
  int32_t size() const { return size_.load(std::memory_order_acquire); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  void stop();

  /// Blocks until there is a request or the queue is stopped.
  void wait();
  /// Blocks for `timeout`, until a request is pushed or until the queue is stopped.
  void wait_for(std::chrono::milliseconds timeout);
  bool has(Priority priority) const;
  /// The first of the priority; none if there is no such request.
  std::optional<Waiting> first(Priority priority, Before before) const;
  /// Takes that one out; null if there is none.
  std::unique_ptr<Submission> pop(Priority priority, Before before);
  /// Takes out the first to come; null if there is none.
  std::unique_ptr<Submission> pop_any();
  /// Takes out all that `select` chooses, in order of their coming.
  std::vector<std::unique_ptr<Submission>> take(FunctionRef<bool(const Submission&)> select);
  /// Shows all of the priority.
  void visit(Priority priority, FunctionRef<void(const Submission&)> see) const;

 private:
  using Entries = std::deque<std::unique_ptr<Submission>>;
  Entries::const_iterator find_first(Priority priority, Before before) const;
  std::unique_ptr<Submission> take_out(Entries::const_iterator entry);
  std::optional<size_t> who_makes_room_for(const Party& party) const;

  const int32_t size_max_;
  mutable std::mutex mutex_;  // guards entries_; size_ and stopped_ are written under it
  std::condition_variable changed_;
  Entries entries_;
  std::atomic<int32_t> size_ = 0;
  std::atomic<bool> stopped_ = false;
};

/// What the request is answered that push returns.
const Error& displaced_error();
/// The end of a request that left the queue without having run.
Events end_in_queue(const Submission& submission, FinishReason reason, Error error);

}  // namespace cairn
