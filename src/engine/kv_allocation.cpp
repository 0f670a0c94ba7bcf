// Pages for every row of a step: found in the cache, taken from the pool, or taken from another sequence.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_core.h"

namespace cairn {

// A prompt in progress may go on where another sequence has got to meanwhile.
void EngineCore::extend_prefix_hits() {
  if (!prefix_cache_enabled_ || has_state_) return;  // a recurrent state cannot change under a sequence
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    SequenceMemory& memory = sequence->memory();
    if (sequence->embeds() || sequence->rows_left() <= 1 || memory.computed != memory.cursor.tokens) continue;
    const auto tokens = static_cast<int32_t>(sequence->tokens().size());
    const PrefixHit hit = prefix_cache_.resume(memory.cursor, sequence->tokens(), tokens - 1, memory.table);
    if (hit.tokens <= memory.computed) continue;
    counters_.cached_tokens += hit.tokens - memory.computed;
    sequence->found_in_cache(hit.tokens - memory.computed);
    memory.computed = hit.tokens;
  }
}

// Of several prompts about to compute the same page only the first does; the others find it in the cache then.
void EngineCore::defer_duplicate_prefills() {
  if (!prefix_cache_enabled_ || has_state_) return;
  page_keys_.clear();
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    const bool prompt = sequence.rows_left() > 1 && !sequence.embeds() && !inputs_[i].deferred;
    page_keys_.push_back(prompt ? prefix_cache_.next_key(sequence.memory().cursor, sequence.tokens()) : 0);
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (page_keys_[i] == 0) continue;
    for (size_t j = 0; j < running_.size() && !inputs_[i].deferred; ++j) {
      inputs_[i].deferred = j != i && page_keys_[j] == page_keys_[i] && running_[j]->precedes(*running_[i]);
    }
  }
}

// False, and nothing changed but what was evicted, when there is no memory for it.
bool EngineCore::reserve(Sequence& sequence, int32_t tokens) {
  PageTable& table = sequence.memory().table;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const int32_t missing = pool_.missing(table, group, tokens);
    if (missing > pool_.pages_free(group) && !prefix_cache_.make_room(group, missing)) return false;
  }
  CAIRN_CHECK(pool_.extend(table, tokens));
  return true;
}

// For how many drafts behind the next token there are pages: all, or else what is left of that token's own.
int32_t EngineCore::reserve_drafts(Sequence& sequence, int32_t wanted) {
  SequenceMemory& memory = sequence.memory();
  const int32_t next = memory.computed + 1;
  // The answer will want them a few tokens later in any case, so what is cached may make room.
  if (reserve(sequence, next + wanted)) return wanted;
  const int32_t left = std::min(wanted, pages_for(next) * kPageTokens - next);
  return pool_.extend(memory.table, next + left) ? left : 0;
}

// What was drafted stays: its rows are computed again where they get pages.
void EngineCore::release_drafts() {
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence == nullptr || !sequence->decoding()) continue;
    pool_.release_beyond(sequence->memory().table, sequence->memory().computed + 1);
  }
}

// What must be had comes first, for all: nobody is put back for a draft.
void EngineCore::reserve_pages() {
  for (const ScheduledTokens& share : scheduled_) {
    std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
    if (sequence == nullptr) continue;
    const int32_t rows = inputs_[static_cast<size_t>(share.demand)].decode ? 1 : share.rows;
    const int32_t tokens = sequence->memory().computed + rows;
    if (pool_.extend(sequence->memory().table, tokens)) continue;
    release_drafts();
    while (sequence != nullptr && !reserve(*sequence, tokens)) {
      std::unique_ptr<Sequence>& victim = *victim_for(*sequence);
      preempt(victim, victim->rank() == kUnreadRank ? PreemptReason::kUnread : PreemptReason::kPages);
    }
  }
  for (ScheduledTokens& share : scheduled_) {
    const std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
    if (sequence == nullptr || !inputs_[static_cast<size_t>(share.demand)].decode) continue;
    if (share.rows > 1) share.rows = 1 + reserve_drafts(*sequence, share.rows - 1);
  }
}

// Within a tenant by deadline, within a client by that rank and deadline.
void EngineCore::rank_running() {
  const auto reads = [](const auto& sequence) { return !sequence->channel().unread(); };
  const bool somebody_reads = std::ranges::any_of(running_, reads);
  bool alone = true;
  for (const auto& sequence : running_) {
    const bool defers = sequence->channel().stalled() || (somebody_reads && !reads(sequence));
    sequence->set_rank(defers ? kUnreadRank : 0);
    alone = alone && sequence->party() == running_.front()->party();
  }
  if (alone) return;  // deadlines say it all
  const auto competes = [](const Sequence& a, const Sequence& b) {
    return a.rank() != kUnreadRank && a.priority() == b.priority() && a.party().client == b.party().client;
  };
  tenant_ranks_.clear();
  for (const auto& sequence : running_) {
    tenant_ranks_.push_back(static_cast<int32_t>(std::ranges::count_if(running_, [&](const auto& other) {
      return competes(*other, *sequence) && other->party() == sequence->party() && other->is_due_before(*sequence);
    })));
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->rank() == kUnreadRank) continue;
    int32_t rank = 0;
    for (size_t j = 0; j < running_.size(); ++j) {
      if (!competes(*running_[j], *running_[i])) continue;
      const bool earlier = tenant_ranks_[j] != tenant_ranks_[i] ? tenant_ranks_[j] < tenant_ranks_[i]
                                                                : running_[j]->is_due_before(*running_[i]);
      rank += earlier ? 1 : 0;
    }
    running_[i]->set_rank(rank);
  }
}

// The first to yield among those that come after `sequence`; the sequence itself if it is the last. So the first of all
// is never put back, and everything comes to its end.
std::unique_ptr<Sequence>* EngineCore::victim_for(const Sequence& sequence) {
  for (int priority = 0; priority < kPriorities; ++priority) count_slots(static_cast<Priority>(priority));
  std::unique_ptr<Sequence>* victim = nullptr;
  for (std::unique_ptr<Sequence>& other : running_) {
    if (other == nullptr || other->precedes(sequence)) continue;
    if (other.get() == &sequence && victim != nullptr) continue;
    const bool itself = victim != nullptr && victim->get() == &sequence;
    if (victim == nullptr || itself || yields_before(*other, **victim)) victim = &other;
  }
  CAIRN_CHECK(victim != nullptr);
  return victim;
}

// What is not read, then the lowest class, then who has most, then what is cheapest to compute again.
bool EngineCore::yields_before(const Sequence& a, const Sequence& b) const {
  if ((a.rank() == kUnreadRank) != (b.rank() == kUnreadRank)) return a.rank() == kUnreadRank;
  if (a.priority() != b.priority()) return a.priority() > b.priority();
  const Holdings& places = slots_[static_cast<size_t>(a.priority())];
  const Held of_a = places.of(a.party());
  const Held of_b = places.of(b.party());
  if (of_a != of_b) return of_a > of_b;
  return a.memory().computed < b.memory().computed;
}

// Its whole pages stay in the cache as long as nobody needs them more.
void EngineCore::preempt(std::unique_ptr<Sequence>& sequence, PreemptReason why) {
  release_kv(*sequence);
  sequence->preempted(why);
  ++counters_.preemptions;
  --counters_.active;
  ++counters_.pending;
  pending_.push_back(std::move(sequence));  // has room: see iterate()
}

void EngineCore::keep_pages() {
  for (const ScheduledTokens& share : scheduled_) {
    const std::unique_ptr<Sequence>& sequence = running_[static_cast<size_t>(share.demand)];
    if (sequence == nullptr) continue;
    SequenceMemory& memory = sequence->memory();
    if (uses_prefix_cache(*sequence))
      prefix_cache_.advance(memory.cursor, sequence->tokens(), memory.computed, memory.table);
    pool_.release_behind(memory.table, memory.computed);
    pool_.release_beyond(memory.table, memory.computed + 1);  // those of wrong drafts, before anybody misses them
  }
}

// States that are not those after memory.computed tokens: nobody can go on from them.
void EngineCore::drop_states(SequenceMemory& memory) {
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    if (pool_.layout().groups[static_cast<size_t>(group)].kind != KvKind::kState) continue;
    std::vector<PageId>& slots = memory.table.groups[static_cast<size_t>(group)];
    for (const PageId slot : slots) pool_.release(group, slot);
    slots.clear();
  }
}

void EngineCore::release_kv(Sequence& sequence) {
  SequenceMemory& memory = sequence.memory();
  if (uses_prefix_cache(sequence)) {
    prefix_cache_.leave(memory.cursor, sequence.tokens(), memory.computed, memory.table);
  } else {
    pool_.release(memory.table);
  }
  memory.cursor = PrefixCache::root(sequence.salt());
  memory.computed = 0;
}

// The gauges show the group that sequences use most of.
void EngineCore::count_pages() {
  counters_.pages_restored = prefix_cache_.pages_restored();
  double fullest = -1;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const int32_t total = pool_.pages_total(group);
    const int32_t free = pool_.pages_free(group);
    const int32_t cached = prefix_cache_.pages_evictable(group);
    const double used = static_cast<double>(total - free - cached) / total;
    if (used <= fullest) continue;
    fullest = used;
    counters_.pages_total = total;
    counters_.pages_free = free;
    counters_.pages_cached = cached;
  }
}

}  // namespace cairn
