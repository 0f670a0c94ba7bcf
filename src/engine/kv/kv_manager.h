/// The KV pages of all sequences: found in the prefix cache, taken from the pool, given back.
///
/// It says whether there are pages; PreemptionPolicy decides which sequence yields its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "cache/disk/disk_tier.h"
#include "cache/page_pool.h"
#include "cache/prefix_cache.h"
#include "engine/engine_counters.h"
#include "engine/engine_options.h"
#include "engine/kv/prefix_reports.h"
#include "engine/scheduling/scheduler.h"
#include "engine/sequence/sequence.h"
#include "engine/slots.h"

namespace cairn::engine {

/// Pages are loaded if that is expected to take less than this share of the time of computing them.
inline constexpr double kDiskTimeShare = 0.8;
/// A sequence waits this long for the next page from the disk; then it computes.
inline constexpr std::chrono::seconds kDiskPatience{5};
/// Bytes from the disk that are put in place in one step while other sequences run.
inline constexpr int64_t kDiskStepBytes = int64_t{16} << 20;
/// Distance of states that are written, besides those after the first and the last message of a prompt.
inline constexpr int32_t kDiskStateSpacing = 2'048;
/// How long the end of an engine waits for the disk.
inline constexpr std::chrono::seconds kFlushMax{20};

/// Owns the pool and the prefix cache. Allocates nothing after it was made, except for prefix reports. Thread: the
/// engine's, except for reports() and what never changes of the pool.
class KvManager {
 public:
  /// Serves at most `sequences_max` running sequences. Counts cached tokens and pages in `counters`, which outlive
  /// this.
  KvManager(cache::PagePool&& pool, const EngineOptions& options, int32_t sequences_max, EngineCounters& counters);

  /// Evicted pages are kept in `bytes` of host memory. Call before the first sequence. Error: kOutOfMemory.
  Result<void> use_host_tier(int64_t bytes);

  /// Pages outlive the process in `tier`. Call after use_host_tier, before the first sequence. Error: kOutOfMemory.
  Result<void> use_disk(std::shared_ptr<cache::disk::DiskTier> tier);
  const cache::disk::DiskTier* disk() const { return disk_.get(); }
  /// Null without a disk tier. Thread-safe.
  Slots* slots() { return slots_.get(); }

  const cache::PagePool& pool() const { return pool_; }
  cache::PrefixCache& prefix_cache() { return prefix_cache_; }
  const PrefixReports& reports() const { return reports_; }
  /// Whether some layers are recurrent.
  bool has_state() const { return has_state_; }

  // -- Before a sequence runs.
  /// Sets the checkpoints of a new sequence, if the model has recurrent states and its pages are cached.
  void plan_checkpoints(Sequence& sequence, const tokenizer::Tokenizer& tokenizer) const;
  /// Gives the sequence what the cache has of it, and checks whether the rest would find pages beside those that
  /// `running` will take. If not, false, and the sequence has no pages.
  bool try_admit(Sequence& sequence, const Sequences& running);

  // -- The disk tier (kv_disk.cpp).
  /// Puts pages that came from the disk into their places, and computes instead where they do not come.
  void take_loaded(const Sequences& running, int64_t now_ns);
  /// Writes what is cached, within kFlushMax. Nothing runs any more.
  void flush() noexcept;
  void set_cost(cache::RebuildCost cost);
  /// Whether all pages that a sequence with a slot action is about have come, or have been handed over.
  bool is_done(Sequence& sequence) noexcept;

  // -- Before a step.
  /// Advances a prompt in progress over pages that another sequence has computed meanwhile.
  void extend_prefix_hits(const Sequences& running);
  /// For each of `running`, the key of the whole page that its prompt is about to compute, or 0: sequences with the
  /// same key compute the same page. With recurrent states it is the key of the next checkpoint, and they compute the
  /// same pages up to there. Empty if sequences cannot take over what others computed. Valid until the next call.
  std::span<const uint64_t> page_keys(const Sequences& running, std::span<const ScheduleInput> inputs);
  /// Takes free pages for the sequence's first `tokens` tokens. False, with nothing changed, if there are too few.
  bool extend(Sequence& sequence, int32_t tokens) { return pool_.extend(sequence.memory().table, tokens); }
  /// Takes free pages like extend(), but evicts cached pages to make room. False if that is too little; then only
  /// evictions have happened.
  bool reserve(Sequence& sequence, int32_t tokens);
  /// Takes pages for up to `wanted` drafts after the next token; returns for how many there are: all, or as many as fit
  /// into that token's own page.
  int32_t reserve_drafts(Sequence& sequence, int32_t wanted);
  /// Frees the pages of drafts. The drafts stay: their rows are computed again once they get pages.
  void release_drafts(const Sequences& running);

  // -- After a step, and after a sequence.
  /// Adds what the sequences of the step have computed to the cache, and frees pages that they need no more.
  void keep(std::span<const ScheduledTokens> scheduled, const Sequences& running);
  /// Frees states that are not those after memory.computed tokens, since no sequence can go on from them.
  void drop_states(SequenceMemory& memory);
  /// Frees all pages of the sequence. Whole ones stay in the cache until they are evicted.
  void release(Sequence& sequence);
  /// Releases a sequence that ends, and fills what `finish` says of the cache. Its conversation is kept in a slot; of
  /// one with a slot action, kLength says that it is done.
  void end(Sequence& sequence, Finish& finish) noexcept;
  /// Updates the gauges of pages, which show the group of which sequences use most, and of states.
  void count_pages();

 private:
  int32_t pages_to_come(const Sequence& sequence, int32_t group) const;
  DiskLookup begin_load(Sequence& sequence, const Sequences& running) noexcept;
  bool pays(const cache::disk::DiskMatch& match, int32_t from) const;
  double compute_ns(int32_t from, int32_t to) const;
  bool others_load(const Sequence& sequence, const Sequences& running) const;
  void finish_load(Sequence& sequence, int64_t now_ns);
  void give_up_load(Sequence& sequence);
  void save(Sequence& sequence) noexcept;
  int32_t keep_conversation(const Sequence& sequence, FinishReason reason) noexcept;
  // Sequences that embed bypass the cache, because it does not hold hidden rows.
  bool uses_prefix_cache(const Sequence& sequence) const { return prefix_cache_enabled_ && !sequence.embeds(); }

  cache::PagePool pool_;
  cache::PrefixCache prefix_cache_;
  PrefixReports reports_;
  const bool prefix_cache_enabled_;
  const int32_t sequences_max_;
  const bool has_state_;
  const int32_t prefill_chunk_max_;
  EngineCounters& counters_;
  std::shared_ptr<cache::disk::DiskTier> disk_;
  std::unique_ptr<Slots> slots_;  // null without disk_
  const bool has_window_;
  std::optional<cache::RebuildCost> cost_;  // none: unknown
  std::vector<uint64_t> page_keys_;         // see page_keys()
};

}  // namespace cairn::engine
