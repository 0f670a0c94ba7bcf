/// Chooses the sequence that yields its slot or pages when there are not enough for all, in the order of
/// scheduling/fair_shares.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/party.h"
#include "engine/scheduling/fair_shares.h"
#include "engine/sequence/sequence.h"

namespace cairn::engine {

/// Only chooses: nothing changes but ranks and internal buffers. Allocates nothing after it was made. Thread: the
/// engine's.
class PreemptionPolicy {
 public:
  /// The element of the chosen running sequence; null: there is none to choose.
  using Choice = std::unique_ptr<Sequence>*;

  explicit PreemptionPolicy(int32_t sequences_max);

  /// Whether one more sequence of the class may run.
  bool has_slot(const Sequences& running, Priority priority) const;
  /// How many sequences of the class each party runs. Valid until the next call of a member that is not const.
  const Holdings& count_slots(const Sequences& running, Priority priority);
  /// Sets the rank of each sequence: within a tenant by deadline, within a client by that rank and deadline.
  void rank(const Sequences& running);

  /// A sequence whose client does not read and whose slot a sequence of the class may have.
  Choice find_unread(Sequences& running, Priority priority) const;
  /// The sequence with the latest deadline of the party that has most in the class, if that party yields to `party`.
  Choice find_over_share(Sequences& running, const Party& party, Priority priority);
  /// The sequence that yields its slot to one of the class: find_unread, or else find_over_share.
  Choice find_yielding(Sequences& running, const Party& party, Priority priority);
  /// The batch sequence that yields its pages to an interactive request: the one with the fewest computed tokens, of
  /// those that are not past their deadline.
  static Choice find_batch(Sequences& running, int64_t now_ns);
  /// The first to yield among the sequences that come after `sequence`; `sequence` itself if it is the last. So the
  /// first of all is never preempted, and every request ends.
  Choice find_victim(Sequences& running, const Sequence& sequence);

 private:
  bool batch_is_full(const Sequences& running) const;
  bool yields_before(const Sequence& a, const Sequence& b) const;

  const int32_t sequences_max_;
  std::array<Holdings, kPriorities> slots_;  // sequences of each class, as last counted
  std::vector<int32_t> tenant_ranks_;        // used in rank(): ranks within each tenant
};

}  // namespace cairn::engine
