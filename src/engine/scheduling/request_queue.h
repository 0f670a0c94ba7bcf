/// The request queue: requests of many clients, bounded, taken by the engine's thread in the order that it asks for.
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

namespace cairn::engine {

/// A request that has been checked.
struct Submission {
  GenerateRequest request;
  Party party;                        ///< owner: the request's client and tenant
  int32_t tokens_max = 0;             ///< maximum tokens of prompt and answer
  std::vector<float> adapter_scales;  ///< of each LoRA adapter, as the request takes it
  int64_t arrival_ns = 0;             ///< by the engine's clock
  int64_t deadline_ns = 0;            ///< when its first token is due
  std::shared_ptr<EventChannel> channel;
  TenantTicket ticket;
};

/// The properties that decide the order of waiting requests.
struct Waiting {
  Party party;
  int64_t deadline_ns = 0;
};

/// Thread-safe; entries are taken out by one thread, and by push().
class RequestQueue {
 public:
  /// Whether `a` goes before `b`: a strict weak order. Of equal requests the oldest goes first.
  using Before = FunctionRef<bool(const Waiting& a, const Waiting& b)>;

  explicit RequestQueue(int32_t size_max) : size_max_(size_max) {}

  /// No client fills the queue alone. If it is full, a request takes the place of the newest one of the client that has
  /// most waiting (or of the same client's tenant that has), if that has at least two more; so both have as many then,
  /// or the other still has more. Returns the displaced request, which is to be answered with kQueueFull; null while
  /// there is room. (RFC 8290, 4.1.2 drops from the fattest queue as well.) Errors: kQueueFull, kUnavailable (after
  /// stop).
  Result<std::unique_ptr<Submission>> push(std::unique_ptr<Submission> submission);
  int32_t size() const { return size_.load(std::memory_order_acquire); }
  int32_t size(Priority priority) const;
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  void stop();

  /// Blocks until there is a request or the queue is stopped.
  void wait();
  /// Blocks for `timeout`, until a request is pushed or until the queue is stopped.
  void wait_for(std::chrono::milliseconds timeout);
  /// Blocks for `timeout`, or until the queue is stopped, whatever is pushed.
  void wait_until_stopped(std::chrono::nanoseconds timeout);
  bool has(Priority priority) const;
  /// The first request of the priority; none if there is no such request.
  std::optional<Waiting> first(Priority priority, Before before) const;
  /// Takes out the first request of the priority; null if there is none.
  std::unique_ptr<Submission> pop(Priority priority, Before before);
  /// Takes out the oldest request; null if there is none.
  std::unique_ptr<Submission> pop_any();
  /// Takes out all requests that `select` chooses, oldest first.
  std::vector<std::unique_ptr<Submission>> take(FunctionRef<bool(const Submission&)> select);
  /// Calls `see` with each request of the priority.
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

/// The error of a request that push() displaced.
const Error& displaced_error();
/// The finish of a request that left the queue without having run.
Events end_in_queue(const Submission& submission, FinishReason reason, Error error);

}  // namespace cairn::engine
