/// The KV pages of all sequences: found in the prefix cache, taken from the pool, given back.
///
/// It says whether there are pages, and never who must yield theirs: that is PreemptionPolicy's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/engine.h"
#include "engine/engine_counters.h"
#include "engine/prefix_reports.h"
#include "engine/scheduling/scheduler.h"
#include "engine/sequence.h"

namespace cairn {

/// Owns the pool and the prefix cache. Allocates nothing after it was made, but for prefix reports. Thread: the
/// engine's, but for reports() and what of the pool never changes.
class KvManager {
 public:
  /// For at most `sequences_max` running sequences. Counts cached tokens and pages in `counters`, which outlive this.
  KvManager(PagePool&& pool, const EngineOptions& options, int32_t sequences_max, EngineCounters& counters);

  /// Pages that are given up are kept in `bytes` of host memory. Before the first sequence. Error: kOutOfMemory.
  Result<void> use_host_tier(int64_t bytes);

  const PagePool& pool() const { return pool_; }
  PrefixCache& prefix_cache() { return prefix_cache_; }
  const PrefixReports& reports() const { return reports_; }
  /// Whether some layers are recurrent: their state cannot go back, and cannot change under a sequence.
  bool has_state() const { return has_state_; }

  // -- Before a sequence runs.
  /// Takes what the cache has of the sequence, and sees whether the rest would find pages beside those that `running`
  /// will take. False, and the sequence has none, if not.
  bool try_admit(Sequence& sequence, const Sequences& running);

  // -- Before a step.
  /// A prompt in progress may go on where another sequence has got to meanwhile.
  void extend_prefix_hits(const Sequences& running);
  /// For each of `running` the key of the whole page that its prompt is about to compute, or 0: sequences of the same
  /// key compute the same. Empty if sequences cannot take over what others computed. Valid until the next call.
  std::span<const uint64_t> page_keys(const Sequences& running, std::span<const ScheduleInput> inputs);
  /// Pages for the sequence's first `tokens` tokens, of those that are free. False, and nothing changed, if they are
  /// too few.
  bool extend(Sequence& sequence, int32_t tokens) { return pool_.extend(sequence.memory().table, tokens); }
  /// The same, and what is cached makes room. False, and nothing changed but what was evicted, if that is too little.
  bool reserve(Sequence& sequence, int32_t tokens);
  /// For how many drafts behind the next token there are pages: `wanted`, or else what is left of that token's own.
  int32_t reserve_drafts(Sequence& sequence, int32_t wanted);
  /// Takes the pages of drafts back. What was drafted stays: its rows are computed again where they get pages.
  void release_drafts(const Sequences& running);

  // -- After a step, and after a sequence.
  /// The cache learns what the sequences of the step have computed, and what they need no more is free.
  void keep(std::span<const ScheduledTokens> scheduled, const Sequences& running);
  /// Takes states away that are not those after memory.computed tokens: nobody can go on from them.
  void drop_states(SequenceMemory& memory);
  /// Takes all pages of the sequence. Whole ones stay in the cache as long as nobody needs them more.
  void release(Sequence& sequence);
  /// Sets the gauges, which show the group that sequences use most of.
  void count_pages();

 private:
  int32_t pages_to_come(const Sequence& sequence, int32_t group) const;
  // The cache has no hidden rows of what it has.
  bool uses_prefix_cache(const Sequence& sequence) const { return prefix_cache_enabled_ && !sequence.embeds(); }

  PagePool pool_;
  PrefixCache prefix_cache_;
  PrefixReports reports_;
  const bool prefix_cache_enabled_;
  const bool has_state_;
  const int32_t prefill_chunk_max_;
  EngineCounters& counters_;
  std::vector<uint64_t> page_keys_;  // see page_keys()
};

}  // namespace cairn
