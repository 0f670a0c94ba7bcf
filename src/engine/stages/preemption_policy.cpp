#include "engine/stages/preemption_policy.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::engine {
namespace {

/// Batch requests may have at most this many fourths of the running sequences, so that an interactive one finds a slot.
constexpr int32_t kBatchFourths = 3;

}  // namespace

PreemptionPolicy::PreemptionPolicy(int32_t sequences_max) : sequences_max_(sequences_max) {
  for (Holdings& slots : slots_) slots.reserve(static_cast<size_t>(sequences_max));
  tenant_ranks_.reserve(static_cast<size_t>(sequences_max));
}

bool PreemptionPolicy::batch_is_full(const Sequences& running) const {
  const auto batch = std::ranges::count(running, Priority::kBatch, [](const auto& s) { return s->order().priority(); });
  return batch >= std::max(1, sequences_max_ * kBatchFourths / 4);
}

bool PreemptionPolicy::has_slot(const Sequences& running, Priority priority) const {
  const bool full = running.size() >= static_cast<size_t>(sequences_max_);
  return !full && !(priority == Priority::kBatch && batch_is_full(running));
}

const Holdings& PreemptionPolicy::count_slots(const Sequences& running, Priority priority) {
  Holdings& slots = slots_[static_cast<size_t>(priority)];
  slots.clear();
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (sequence != nullptr && sequence->order().priority() == priority) slots.add(sequence->party(), 1);
  }
  return slots;
}

void PreemptionPolicy::rank(const Sequences& running) {
  const auto reads = [](const auto& sequence) { return !sequence->channel().unread(); };
  const bool somebody_reads = std::ranges::any_of(running, reads);
  bool alone = true;
  for (const auto& sequence : running) {
    const bool defers = sequence->channel().stalled() || (somebody_reads && !reads(sequence));
    sequence->order().set_rank(defers ? kUnreadRank : 0);
    alone = alone && sequence->party() == running.front()->party();
  }
  if (alone) return;  // one party alone: its deadlines decide
  const auto competes = [](const Sequence& a, const Sequence& b) {
    return a.order().rank() != kUnreadRank && a.order().priority() == b.order().priority() &&
           a.party().client == b.party().client;
  };
  tenant_ranks_.clear();
  for (const auto& sequence : running) {
    tenant_ranks_.push_back(static_cast<int32_t>(std::ranges::count_if(running, [&](const auto& other) {
      return competes(*other, *sequence) && other->party() == sequence->party() &&
             other->order().is_due_before(sequence->order());
    })));
  }
  for (size_t i = 0; i < running.size(); ++i) {
    if (running[i]->order().rank() == kUnreadRank) continue;
    int32_t rank = 0;
    for (size_t j = 0; j < running.size(); ++j) {
      if (!competes(*running[j], *running[i])) continue;
      const bool earlier = tenant_ranks_[j] != tenant_ranks_[i]
                               ? tenant_ranks_[j] < tenant_ranks_[i]
                               : running[j]->order().is_due_before(running[i]->order());
      rank += earlier ? 1 : 0;
    }
    running[i]->order().set_rank(rank);
  }
}

PreemptionPolicy::Choice PreemptionPolicy::find_unread(Sequences& running, Priority priority) const {
  const bool batch_only = priority == Priority::kBatch && batch_is_full(running);
  const auto found = std::ranges::find_if(running, [=](const std::unique_ptr<Sequence>& sequence) {
    return sequence->channel().unread() && (!batch_only || sequence->order().priority() == Priority::kBatch);
  });
  return found == running.end() ? nullptr : &*found;
}

PreemptionPolicy::Choice PreemptionPolicy::find_over_share(Sequences& running, const Party& party, Priority priority) {
  const Holdings& slots = count_slots(running, priority);
  Choice latest = nullptr;
  for (std::unique_ptr<Sequence>& sequence : running) {
    if (sequence->order().priority() != priority || !slots.yields(sequence->party(), party)) continue;
    const Held held = slots.of(sequence->party());
    const Held most = latest == nullptr ? Held{} : slots.of((*latest)->party());
    if (latest == nullptr || held > most || (held == most && (*latest)->order().is_due_before(sequence->order())))
      latest = &sequence;
  }
  return latest;
}

PreemptionPolicy::Choice PreemptionPolicy::find_yielding(Sequences& running, const Party& party, Priority priority) {
  const Choice unread = find_unread(running, priority);
  return unread != nullptr ? unread : find_over_share(running, party, priority);
}

PreemptionPolicy::Choice PreemptionPolicy::find_batch(Sequences& running, int64_t now_ns) {
  Choice victim = nullptr;
  for (std::unique_ptr<Sequence>& sequence : running) {
    if (sequence->order().priority() != Priority::kBatch || sequence->order().deadline_ns() < now_ns) continue;
    if (victim == nullptr || sequence->memory().computed < (*victim)->memory().computed) victim = &sequence;
  }
  return victim;
}

PreemptionPolicy::Choice PreemptionPolicy::find_victim(Sequences& running, const Sequence& sequence) {
  for (int priority = 0; priority < kPriorities; ++priority) count_slots(running, static_cast<Priority>(priority));
  Choice victim = nullptr;
  for (std::unique_ptr<Sequence>& other : running) {
    if (other == nullptr || other->order().precedes(sequence.order())) continue;
    if (other.get() == &sequence && victim != nullptr) continue;
    const bool itself = victim != nullptr && victim->get() == &sequence;
    if (victim == nullptr || itself || yields_before(*other, **victim)) victim = &other;
  }
  CAIRN_CHECK(victim != nullptr);
  return victim;
}

// Compares victims, after count_slots: unread sequences yield first, then the lower class, then the party that has
// most, then the sequence that is cheapest to compute again.
bool PreemptionPolicy::yields_before(const Sequence& a, const Sequence& b) const {
  const bool unread = a.order().rank() == kUnreadRank;
  if (unread != (b.order().rank() == kUnreadRank)) return unread;
  const Priority priority = a.order().priority();
  if (priority != b.order().priority()) return priority > b.order().priority();
  const Holdings& slots = slots_[static_cast<size_t>(priority)];
  const Held of_a = slots.of(a.party());
  const Held of_b = slots.of(b.party());
  if (of_a != of_b) return of_a > of_b;
  return a.memory().computed < b.memory().computed;
}

}  // namespace cairn::engine
