#include "engine/kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/kv/checkpoints.h"
#include "engine/request_validation.h"

namespace cairn::engine {
namespace {

bool holds(const cache::KvLayout& layout, cache::KvKind kind) {
  return std::ranges::any_of(layout.groups, [=](const cache::KvGroup& group) { return group.kind == kind; });
}

}  // namespace

KvManager::KvManager(cache::PagePool&& pool, const EngineOptions& options, int32_t sequences_max,
                     EngineCounters& counters)
    : pool_(std::move(pool)),
      prefix_cache_(pool_),
      prefix_cache_enabled_(options.prefix_cache),
      sequences_max_(sequences_max),
      has_state_(holds(pool_.layout(), cache::KvKind::kState)),
      prefill_chunk_max_(options.prefill_chunk_max),
      counters_(counters),
      has_window_(holds(pool_.layout(), cache::KvKind::kWindow)) {
  page_keys_.reserve(static_cast<size_t>(sequences_max));
  count_pages();
}

Result<void> KvManager::use_host_tier(int64_t bytes) {
  CAIRN_TRY(prefix_cache_, cache::PrefixCache::create(pool_, bytes));
  return {};
}

// Pages of the group that the sequence's known tokens still need, besides those that it has.
int32_t KvManager::pages_to_come(const Sequence& sequence, int32_t group) const {
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  const cache::PageTable& table = sequence.memory().table;
  const auto have =
      std::ranges::count_if(table.groups[static_cast<size_t>(group)], [](PageId page) { return page != kNoPage; });
  const int32_t at_once = pages_needed(pool_.layout().groups[static_cast<size_t>(group)], tokens, prefill_chunk_max_);
  return std::min(pool_.missing(table, group, tokens), std::max(0, at_once - static_cast<int32_t>(have)));
}

void KvManager::plan_checkpoints(Sequence& sequence, const tokenizer::Tokenizer& tokenizer) const {
  SequenceMemory& memory = sequence.memory();
  if (disk_ != nullptr) {
    SequenceCaching& caching = sequence.caching();
    caching.set_disk_owner(cache::disk::DiskTier::owner(disk_->worker().store(), caching.tenant()),
                           sequence.prompt_tokens() >= disk_->policy().prompt_min);
    memory.cursor = caching.root();
  }
  if ((!has_state_ && (disk_ == nullptr || !has_window_)) || !uses_prefix_cache(sequence)) return;
  const std::vector<int32_t> positions = checkpoint_positions(sequence.tokens(), tokenizer);
  if (disk_ != nullptr) memory.disk.boundaries = positions;
  if (!has_state_) return;
  cache::PrefixCursor cursor = sequence.caching().root();
  for (const int32_t tokens : positions) {
    cursor.key = cache::PrefixCache::key_at(cursor, sequence.tokens(), tokens);
    cursor.tokens = tokens;
    memory.checkpoints.push_back({tokens, cursor.key});
  }
}

bool KvManager::try_admit(Sequence& sequence, const Sequences& running) {
  SequenceMemory& memory = sequence.memory();
  cache::PrefixHit hit;
  if (uses_prefix_cache(sequence))
    hit = prefix_cache_.resume(memory.cursor, sequence.tokens(), sequence.reusable(), memory.table);
  // The headroom is a page for each running sequence, as these grow by a page now and then.
  const auto headroom = static_cast<int32_t>(running.size());
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const bool grows = pool_.layout().groups[static_cast<size_t>(group)].kind != cache::KvKind::kState;
    const int32_t needed = pages_to_come(sequence, group);
    int32_t promised = grows ? headroom : 0;
    for (const std::unique_ptr<Sequence>& other : running) promised += pages_to_come(*other, group);
    if (needed + promised <= pool_.pages_free(group) + prefix_cache_.pages_evictable(group)) continue;
    // The retry does without the copy of a partial page, if there is one, and without the states at its end.
    if (hit.tokens != memory.cursor.tokens) drop_states(memory);
    prefix_cache_.leave(memory.cursor, sequence.tokens(), memory.cursor.tokens, memory.table);
    memory.cursor = sequence.caching().root();
    return false;
  }
  memory.computed = hit.tokens;
  const DiskLookup on_disk = begin_load(sequence, running);
  counters_.cached_tokens += memory.computed;
  sequence.statistics().found_in_cache(memory.computed);
  if (uses_prefix_cache(sequence)) ++counters_.prefix_lookups;
  if (memory.computed > 0) ++counters_.prefix_hits;
  if (!sequence.statistics().was_admitted()) reports_.add(sequence, hit, on_disk);
  return true;
}

void KvManager::extend_prefix_hits(const Sequences& running) {
  if (!prefix_cache_enabled_) return;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    SequenceMemory& memory = sequence->memory();
    if (sequence->embeds() || memory.disk.load != nullptr || memory.computed >= sequence->reusable() ||
        memory.computed != memory.cursor.tokens)
      continue;
    const cache::PrefixHit hit =
        prefix_cache_.resume(memory.cursor, sequence->tokens(), sequence->reusable(), memory.table);
    if (hit.tokens <= memory.computed) continue;
    counters_.cached_tokens += hit.tokens - memory.computed;
    sequence->statistics().found_in_cache(hit.tokens - memory.computed);
    memory.computed = hit.tokens;
  }
}

std::span<const uint64_t> KvManager::page_keys(const Sequences& running, std::span<const ScheduleInput> inputs) {
  page_keys_.clear();
  if (!prefix_cache_enabled_) return {};
  for (size_t i = 0; i < running.size(); ++i) {
    const Sequence& sequence = *running[i];
    // Pages that one loads are no more to be computed by another than those that one computes.
    const bool waits = inputs[i].deferred && sequence.memory().disk.load == nullptr;
    // Nor does one wait for a page whose rows it has to compute itself.
    const bool prompt = sequence.rows_left() > 1 && !sequence.embeds() && !sequence.scores().wanted() && !waits;
    const Checkpoint* const checkpoint = sequence.memory().next_checkpoint();
    page_keys_.push_back(!prompt                 ? 0
                         : !has_state_           ? prefix_cache_.next_key(sequence.memory().cursor, sequence.tokens())
                         : checkpoint != nullptr ? checkpoint->key
                                                 : 0);
  }
  return page_keys_;
}

bool KvManager::reserve(Sequence& sequence, int32_t tokens) {
  cache::PageTable& table = sequence.memory().table;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const int32_t missing = pool_.missing(table, group, tokens);
    if (missing > pool_.pages_free(group) && !prefix_cache_.make_room(group, missing)) return false;
  }
  CAIRN_CHECK(pool_.extend(table, tokens));
  return true;
}

int32_t KvManager::reserve_drafts(Sequence& sequence, int32_t wanted) {
  const int32_t next = sequence.memory().computed + 1;
  // The answer needs these pages a few tokens later in any case, so cached pages may be evicted for them.
  if (reserve(sequence, next + wanted)) return wanted;
  const int32_t left = std::min(wanted, cache::pages_for(next) * kernels::kPageTokens - next);
  return extend(sequence, next + left) ? left : 0;
}

void KvManager::release_drafts(const Sequences& running) {
  for (const std::unique_ptr<Sequence>& sequence : running) {
    if (sequence == nullptr || !sequence->decoding()) continue;
    pool_.release_beyond(sequence->memory().table, sequence->memory().computed + 1);
  }
}

void KvManager::keep(std::span<const ScheduledTokens> scheduled, const Sequences& running) {
  for (const ScheduledTokens& share : scheduled) {
    const std::unique_ptr<Sequence>& sequence = running[static_cast<size_t>(share.demand)];
    if (sequence == nullptr) continue;
    SequenceMemory& memory = sequence->memory();
    if (uses_prefix_cache(*sequence)) {
      const bool checkpoint = std::ranges::binary_search(memory.checkpoints, memory.computed, {}, &Checkpoint::tokens);
      prefix_cache_.advance(memory.cursor, sequence->tokens(), memory.computed, memory.table, checkpoint);
      save(*sequence);
    }
    pool_.release_behind(memory.table, memory.computed);
    // Pages of rejected drafts, freed before another sequence lacks them.
    pool_.release_beyond(memory.table, memory.computed + 1);
  }
}

void KvManager::drop_states(SequenceMemory& memory) {
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    if (pool_.layout().groups[static_cast<size_t>(group)].kind != cache::KvKind::kState) continue;
    std::vector<PageId>& slots = memory.table.groups[static_cast<size_t>(group)];
    for (const PageId slot : slots) pool_.release(group, slot);
    slots.clear();
  }
}

void KvManager::release(Sequence& sequence) {
  SequenceMemory& memory = sequence.memory();
  if (memory.disk.load != nullptr) {
    disk_->worker().cancel(*memory.disk.load);
    memory.disk.load.reset();
    drop_states(memory);
  }
  if (uses_prefix_cache(sequence)) {
    prefix_cache_.leave(memory.cursor, sequence.tokens(), memory.computed, memory.table);
  } else {
    pool_.release(memory.table);
  }
  memory.cursor = sequence.caching().root();
  memory.computed = 0;
}

void KvManager::count_pages() {
  counters_.prefix_evictions = prefix_cache_.evicted();
  counters_.pages_restored = prefix_cache_.pages_restored();
  double fullest = -1;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const int32_t total = pool_.pages_total(group);
    const int32_t free = pool_.pages_free(group);
    const int32_t cached = prefix_cache_.pages_evictable(group);
    if (pool_.layout().groups[static_cast<size_t>(group)].kind == cache::KvKind::kState) {
      counters_.states_total = total;
      counters_.states_free = free;
      counters_.states_cached = cached;
    }
    const double used = static_cast<double>(total - free - cached) / total;
    if (used <= fullest) continue;
    fullest = used;
    counters_.pages_total = total;
    counters_.pages_free = free;
    counters_.pages_cached = cached;
  }
}

}  // namespace cairn::engine
