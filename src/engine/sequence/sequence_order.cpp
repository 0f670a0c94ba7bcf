#include "engine/sequence/sequence_order.h"

#include <algorithm>

namespace cairn::engine {

using std::chrono::nanoseconds;

SequenceOrder::SequenceOrder(SequenceId id, const Submission& submission)
    : id_(id),
      channel_(*submission.channel),
      priority_(submission.request.priority),
      deadline_ns_(submission.deadline_ns),
      patience_ns_(submission.deadline_ns - submission.arrival_ns),
      tbt_ns_(nanoseconds(submission.request.target_tbt).count()) {}

bool SequenceOrder::precedes(const SequenceOrder& other) const {
  if ((rank_ == kUnreadRank) != (other.rank_ == kUnreadRank)) return other.rank_ == kUnreadRank;
  if (priority_ != other.priority_) return priority_ < other.priority_;
  if (rank_ != other.rank_) return rank_ < other.rank_;
  return is_due_before(other);
}

bool SequenceOrder::is_due_before(const SequenceOrder& other) const {
  if (deadline_ns_ != other.deadline_ns_) return deadline_ns_ < other.deadline_ns_;
  return index(id_) < index(other.id_);
}

void SequenceOrder::preempted(PreemptReason why) {
  preempt_reason_ = why;
  waits_for_client_ = channel_.unread();
  if (waits_for_client_) ++times_unread_;
}

void SequenceOrder::rejoin(int64_t now_ns) {
  if (!waits_for_client_ || channel_.unread()) return;
  waits_for_client_ = false;
  deadline_ns_ = now_ns + times_unread_ * std::max(patience_ns_, kRejoinDelay.count());
}

nanoseconds SequenceOrder::stalled_for(int64_t now_ns) {
  if (!channel_.stalled()) {
    stalled_since_ns_ = -1;
    return nanoseconds(0);
  }
  if (stalled_since_ns_ < 0) stalled_since_ns_ = now_ns;
  return nanoseconds(now_ns - stalled_since_ns_);
}

}  // namespace cairn::engine
