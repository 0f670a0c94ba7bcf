// The disk tier at work: a sequence that waits for pages, and pages that are handed over.
#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/kv/kv_manager.h"

namespace cairn::engine {
namespace {

using std::chrono::steady_clock;

/// Time that a load takes besides its bytes: two iterations, and the first read.
constexpr double kLoadStartNs = 3e6;

}  // namespace

Result<void> KvManager::use_disk(std::shared_ptr<cache::disk::DiskTier> tier) {
  if (!prefix_cache_enabled_) return {};
  CAIRN_TRY_VOID(prefix_cache_.use_disk(*tier));
  slots_ = std::make_unique<Slots>(tier, sequences_max_);
  disk_ = std::move(tier);
  return {};
}

bool KvManager::is_done(Sequence& sequence) noexcept {
  SequenceMemory& memory = sequence.memory();
  if (memory.disk.load != nullptr) return false;
  if (sequence.caching().slot_action() != SlotAction::kSave || disk_ == nullptr) return true;
  save(sequence);
  if (memory.disk.saved < memory.cursor.tokens && memory.cursor.keeps_on_disk) return false;
  // end() hands over the rest at once.
  int64_t rest = 0;
  for (int32_t group = 0; group < pool_.groups(); ++group) {
    const cache::KvGroup& of = pool_.layout().groups[static_cast<size_t>(group)];
    rest += disk_->bytes_of(group) * (of.kind == cache::KvKind::kWindow ? cache::pages_for(of.window) + 1 : 1);
  }
  return disk_->worker().has_room(rest);
}

// Returns in which slot; -1: in none.
int32_t KvManager::keep_conversation(const Sequence& sequence, FinishReason reason) noexcept {
  const SequenceCaching& caching = sequence.caching();
  const SlotAction action = caching.slot_action();
  const bool keeps = action == SlotAction::kNone || (action == SlotAction::kRestore && reason == FinishReason::kLength);
  if (slots_ == nullptr || !keeps || !caching.may_be_kept() || reason == FinishReason::kError) return -1;
  if (!uses_prefix_cache(sequence) || caching.slot() >= slots_->count()) return -1;
  // The last token, which was sampled and never computed, belongs to it as well.
  const auto known = static_cast<size_t>(sequence.memory().computed) + 1;
  const std::span<const TokenId> tokens = sequence.tokens();
  return slots_->put(caching.tenant(), caching.slot(), tokens.first(std::min(tokens.size(), known)), caching.salt());
}

void KvManager::end(Sequence& sequence, Finish& finish) noexcept {
  const int32_t computed = sequence.memory().computed;
  finish.slot = keep_conversation(sequence, finish.reason);
  if (uses_prefix_cache(sequence)) {
    const int32_t kept = std::min(computed / kernels::kPageTokens * kernels::kPageTokens, sequence.prompt_tokens());
    finish.usage.cache_write_tokens = std::max(0, kept - sequence.statistics().cached_tokens());
  }
  release(sequence);
  const SequenceCaching& caching = sequence.caching();
  if (caching.slot_action() == SlotAction::kNone || finish.reason != FinishReason::kLength) return;
  const auto tokens = sequence.tokens().first(static_cast<size_t>(computed));
  if (caching.slot_action() == SlotAction::kSave) prefix_cache_.save_end(caching.root(), tokens);
  if (caching.slot_action() == SlotAction::kErase) prefix_cache_.erase(caching.root(), tokens);
}

void KvManager::set_cost(cache::RebuildCost cost) {
  cost_ = cost;
  prefix_cache_.set_cost(cost);
}

double KvManager::compute_ns(int32_t from, int32_t to) const {
  const double count = to - from;
  return cost_ ? count * cost_->token_ns + count * (from + to) / 2 * cost_->position_ns : 0;
}

bool KvManager::pays(const cache::disk::DiskMatch& match, int32_t from) const {
  if (!cost_) return true;
  const double load_ns = kLoadStartNs + static_cast<double>(match.bytes) / disk_->read_rate() * 1e9;
  return load_ns < kDiskTimeShare * compute_ns(from, match.tokens);
}

// Whether another sequence is loading the same page, which this one will find in memory.
bool KvManager::others_load(const Sequence& sequence, const Sequences& running) const {
  if (has_state_) return false;
  const uint64_t key = prefix_cache_.next_key(sequence.memory().cursor, sequence.tokens());
  return std::ranges::any_of(running, [&](const std::unique_ptr<Sequence>& other) {
    return other != nullptr && other->memory().disk.load != nullptr &&
           prefix_cache_.next_key(other->memory().cursor, other->tokens()) == key;
  });
}

// Asks for what the disk has of the sequence beyond what memory has.
DiskLookup KvManager::begin_load(Sequence& sequence, const Sequences& running) noexcept try {
  SequenceMemory& memory = sequence.memory();
  if (disk_ == nullptr || !uses_prefix_cache(sequence) || memory.disk.gave_up || sequence.scores().wanted()) return {};
  const SlotAction action = sequence.caching().slot_action();
  if (action != SlotAction::kNone && action != SlotAction::kRestore) return {};
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  cache::disk::DiskMatch match = prefix_cache_.find_on_disk(memory.cursor, sequence.tokens(), tokens - 1);
  const int32_t gain = match.tokens - memory.computed;
  std::string_view miss = match.tokens_with_pages > match.tokens
                              ? "the next pages are there, but no window or state to go on from behind them"
                              : "the next page is not there";
  if (match.tokens == tokens - 1) miss = "it has all of the prompt";
  const bool wanted = action == SlotAction::kRestore;
  const bool found = gain >= (wanted ? 1 : disk_->policy().gain_min);
  if (gain > 0 && !found) miss = "so few tokens are computed as fast";
  if (!found) {
    if (gain <= 0) ++counters_.disk_misses;
    return {.miss = miss};
  }
  if (others_load(sequence, running)) return {.miss = "another request loads the same pages"};
  if (!wanted && !pays(match, memory.computed)) return {.miss = "computing is faster than loading"};
  if (!prefix_cache_.make_places(memory.cursor, match, memory.table)) {
    give_up_load(sequence);
    return {.miss = "there is no memory for its pages"};
  }
  // A copy of a page that agreed in its beginning has made room.
  memory.computed = memory.cursor.tokens;
  const int32_t loaded = match.tokens - memory.computed;
  memory.disk.load_tokens = match.tokens;
  memory.disk.begun_ns = 0;
  memory.disk.load = disk_->load(std::move(match));
  return {.tokens = loaded, .miss = miss};
} catch (const std::bad_alloc&) {
  log_debug("no memory to load pages from the disk");
  give_up_load(sequence);
  return {};
}

// Begins anew with what memory has.
void KvManager::give_up_load(Sequence& sequence) {
  SequenceMemory& memory = sequence.memory();
  if (memory.disk.load != nullptr) disk_->worker().cancel(*memory.disk.load);
  memory.disk.load.reset();
  memory.disk.gave_up = true;
  drop_states(memory);
  prefix_cache_.leave(memory.cursor, sequence.tokens(), memory.cursor.tokens, memory.table);
  memory.cursor = sequence.caching().root();
  const auto tokens = static_cast<int32_t>(sequence.tokens().size());
  memory.computed = prefix_cache_.resume(memory.cursor, sequence.tokens(), tokens - 1, memory.table).tokens;
}

void KvManager::take_loaded(const Sequences& running, int64_t now_ns) {
  if (disk_ == nullptr) return;
  const bool alone =
      std::ranges::all_of(running, [](const auto& sequence) { return sequence->memory().disk.load != nullptr; });
  int64_t bytes_left = alone ? cache::disk::kStagingBytes : kDiskStepBytes;
  for (const std::unique_ptr<Sequence>& sequence : running) {
    SequenceMemory& memory = sequence->memory();
    if (memory.disk.load == nullptr) continue;
    cache::disk::DiskLoad& load = *memory.disk.load;
    if (memory.disk.begun_ns == 0) memory.disk.begun_ns = memory.disk.progress_ns = now_ns;
    while (bytes_left > 0) {
      const std::optional<cache::disk::LoadedPage> page = disk_->worker().take(load);
      if (!page) break;
      const std::vector<PageId>& places = memory.table.groups[static_cast<size_t>(page->group)];
      pool_.write(page->group, page->bytes.data(), places.at(static_cast<size_t>(page->place)));
      bytes_left -= std::ssize(page->bytes);
      memory.disk.progress_ns = now_ns;
    }
    if (disk_->worker().is_done(load)) {
      finish_load(*sequence, now_ns);
    } else if (disk_->worker().has_failed(load) ||
               now_ns - memory.disk.progress_ns > std::chrono::nanoseconds(kDiskPatience).count()) {
      ++counters_.disk_failures;
      const int32_t before = memory.computed;
      give_up_load(*sequence);
      counters_.cached_tokens += memory.computed - before;
      sequence->statistics().found_in_cache(memory.computed - before);
    }
  }
}

// What was loaded counts as computed.
void KvManager::finish_load(Sequence& sequence, int64_t now_ns) {
  SequenceMemory& memory = sequence.memory();
  const int32_t tokens = memory.disk.load_tokens - memory.computed;
  ++counters_.disk_hits;
  counters_.disk_tokens += tokens;
  const int64_t time_ns = now_ns - memory.disk.begun_ns;
  counters_.disk_ns += time_ns;
  if (cost_)
    counters_.disk_saved_ns += static_cast<int64_t>(compute_ns(memory.computed, memory.disk.load_tokens)) - time_ns;
  memory.disk.load.reset();
  memory.computed = memory.disk.load_tokens;
  counters_.cached_tokens += tokens;
  sequence.statistics().found_in_cache(tokens, true);
  prefix_cache_.advance(memory.cursor, sequence.tokens(), memory.computed, memory.table, has_state_);
  pool_.release_behind(memory.table, memory.computed);
  save(sequence);
}

// Hands over what the prompt's computation has added: answers are written when they have become part of a prompt, or
// are evicted.
void KvManager::save(Sequence& sequence) noexcept try {
  SequenceMemory& memory = sequence.memory();
  if (disk_ == nullptr || !memory.cursor.keeps_on_disk) return;
  const int32_t end =
      std::min(memory.cursor.tokens, sequence.prompt_tokens() / kernels::kPageTokens * kernels::kPageTokens);
  if (memory.disk.saved < end) memory.disk.saved = prefix_cache_.save(memory.cursor, memory.disk.saved, end);
  const std::vector<int32_t>& boundaries = memory.disk.boundaries;
  for (size_t& next = memory.disk.next_boundary; next < boundaries.size(); ++next) {
    const int32_t tokens = boundaries[next];
    if (tokens > memory.disk.saved) return;
    const bool spaced = next > 0 && tokens / kDiskStateSpacing > boundaries[next - 1] / kDiskStateSpacing;
    const bool states = next == 0 || next + 1 == boundaries.size() || spaced;
    prefix_cache_.save_boundary(memory.cursor, tokens, states);
  }
} catch (const std::bad_alloc&) {
  log_debug("no memory for pages on their way to the disk");
}

void KvManager::flush() noexcept try {
  if (disk_ == nullptr) return;
  const auto end = steady_clock::now() + kFlushMax;
  int64_t largest = 0;
  for (int32_t group = 0; group < pool_.groups(); ++group) largest = std::max(largest, disk_->bytes_of(group));
  prefix_cache_.save_all([&] {
    while (!disk_->worker().has_room(largest * pool_.groups())) {
      if (steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return steady_clock::now() < end;
  });
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady_clock::now());
  if (!disk_->worker().drain(std::max(left, std::chrono::milliseconds(1))))
    log_info("not all that is cached was written to the disk within {} s", kFlushMax.count());
} catch (const std::exception& exception) {
  log_info("not all that is cached was written to the disk: {}", exception.what());
}

}  // namespace cairn::engine
