/// Who yields a place or pages when there are not enough for all, in the order that fair_shares.h describes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/scheduling/fair_shares.h"
#include "engine/scheduling/party.h"
#include "engine/sequence.h"

namespace cairn {

/// Chooses only: nothing changes but ranks, and buffers of its own. Allocates nothing after it was made. Thread: the
/// engine's.
class PreemptionPolicy {
 public:
  /// The place of a running sequence; null: there is none to choose.
  using Choice = std::unique_ptr<Sequence>*;

  explicit PreemptionPolicy(int32_t sequences_max);

  /// Whether one more of the class may run.
  bool has_slot(const Sequences& running, Priority priority) const;
  /// How many sequences of the class each party runs. Valid until the next call of a member that is not const.
  const Holdings& count_slots(const Sequences& running, Priority priority);
  /// Sets the rank of each: within a tenant by deadline, within a client by that rank and deadline.
  void rank(const Sequences& running);

  /// One that nobody reads and that has a place which one of the class may have.
  Choice find_unread(Sequences& running, Priority priority) const;
  /// The latest of those who have most in the class, if that is so much more than `party` has that they yield.
  Choice find_over_share(Sequences& running, const Party& party, Priority priority);
  /// Who yields a place to one of the class: find_unread, else find_over_share.
  Choice find_yielding(Sequences& running, const Party& party, Priority priority);
  /// The batch sequence that yields its pages to an interactive request: the one with the fewest computed tokens, of
  /// those that have not waited past their deadline.
  static Choice find_batch(Sequences& running, int64_t now_ns);
  /// The first to yield among those that come after `sequence`; the sequence itself if it is the last. So the first of
  /// all is never put back, and everything comes to its end.
  Choice find_victim(Sequences& running, const Sequence& sequence);

 private:
  bool batch_is_full(const Sequences& running) const;
  bool yields_before(const Sequence& a, const Sequence& b) const;

  const int32_t sequences_max_;
  std::array<Holdings, kPriorities> slots_;  // of each class, as last counted
  std::vector<int32_t> tenant_ranks_;        // within rank(): within each tenant
};

}  // namespace cairn
