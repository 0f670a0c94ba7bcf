/// A sequence's place among others: what decides which of them runs, and which yields (scheduling/fair_shares.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "base/ids.h"
#include "engine/output/event_channel.h"
#include "engine/party.h"
#include "engine/scheduling/request_queue.h"

namespace cairn::engine {

/// SequenceOrder::rank() of a sequence whose client does not read.
inline constexpr int32_t kUnreadRank = std::numeric_limits<int32_t>::max();
/// When the client of a request that was preempted as unread has read, the request is due after this delay at the
/// earliest: behind those that came before.
inline constexpr std::chrono::nanoseconds kRejoinDelay = std::chrono::seconds(2);

/// Why a sequence that ran waits again.
enum class PreemptReason {
  kNever,
  kPages,   ///< a sequence that comes before it needed them
  kShare,   ///< for a party that has less (scheduling/fair_shares.h)
  kUnread,  ///< its client does not read
};

/// Thread: the engine's.
class SequenceOrder {
 public:
  /// The channel of the submission outlives this.
  SequenceOrder(SequenceId id, const Submission& submission);

  Priority priority() const { return priority_; }
  int64_t deadline_ns() const { return deadline_ns_; }
  /// The wanted time between two tokens; 0: none.
  int64_t tbt_ns() const { return tbt_ns_; }
  /// Whether this sequence goes on rather than `other` when only one can: first those whose clients read, then by
  /// priority, rank and deadline.
  bool precedes(const SequenceOrder& other) const;
  /// Whether its deadline is nearer than `other`'s; of equal ones the older request's is.
  bool is_due_before(const SequenceOrder& other) const;
  /// How many sequences of its client come before it; kUnreadRank if its client does not read. Set for every step.
  int32_t rank() const { return rank_; }
  void set_rank(int32_t rank) { rank_ = rank; }

  // -- Preemption, and clients that do not read.
  void preempted(PreemptReason why);
  PreemptReason preempt_reason() const { return preempt_reason_; }
  /// Whether it was preempted because its client did not read, and the client had still not read at the last rejoin().
  bool waits_for_client() const { return waits_for_client_; }
  /// Gives the sequence, once its client has read, the place of a request that comes now, and a later one each time:
  /// clients that stall repeatedly come behind those that do not.
  void rejoin(int64_t now_ns);
  /// How long the client has read no events while kPendingTokensMax were waiting.
  std::chrono::nanoseconds stalled_for(int64_t now_ns);

 private:
  SequenceId id_;
  const EventChannel& channel_;
  Priority priority_;
  int64_t deadline_ns_;
  int64_t patience_ns_;  // time from its arrival to its deadline
  int64_t tbt_ns_;
  int32_t rank_ = 0;
  PreemptReason preempt_reason_ = PreemptReason::kNever;
  bool waits_for_client_ = false;
  int32_t times_unread_ = 0;       // how often it was preempted as unread
  int64_t stalled_since_ns_ = -1;  // -1: the client reads its events
};

}  // namespace cairn::engine
