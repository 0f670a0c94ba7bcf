/// Counts and gauges of an engine. Part of the interface of engine/engine.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "cache/disk/page_store.h"

namespace cairn::engine {

/// When a stream's finish can be seen, its request is not counted as active and its pages are free or cached.
struct EngineStats {
  int32_t active_requests = 0;
  int32_t waiting_requests = 0;
  int32_t waiting_batch_requests = 0;  ///< of them, those of Priority::kBatch that are in the queue
  int64_t total_requests = 0;          ///< accepted since the start, as are all counts below
  int64_t cancelled_requests = 0;      ///< whose client went away or asked to stop
  int64_t preemptions = 0;
  int64_t tokens_generated = 0;  ///< sampled tokens
  /// Computed prompt tokens; a preempted request's count again when they are computed again.
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  ///< found in the prefix cache and not computed, after a preemption as well
  int64_t drafts = 0;
  int64_t drafted_tokens = 0;
  int64_t accepted_tokens = 0;
  int64_t steps = 0;                        ///< steps of the model
  std::chrono::nanoseconds step_time{0};    ///< sum over all steps
  std::chrono::nanoseconds rested_time{0};  ///< between steps, for PowerLimit
  int64_t failed_steps = 0;                 ///< of them, those that failed
  int64_t limited_steps = 0;  ///< steps whose time was up before all prompts had the rows that they wanted
  std::chrono::nanoseconds last_step_time{0};
  std::chrono::nanoseconds average_step_time{0};  ///< the last ones count most (kStepAverageShare)
  int32_t last_prompt_rows = 0;                   ///< of the last step
  int32_t last_decode_rows = 0;
  int64_t prefix_lookups = 0;    ///< prompts that were looked up in the prefix cache when they were admitted
  int64_t prefix_hits = 0;       ///< of them, those of which something was found
  int64_t prefix_evictions = 0;  ///< nodes, which are pages of prompts, that gave up their place
  int64_t pages_restored = 0;    ///< pages restored from host memory (kv_host_bytes)
  // The disk tier; what its folder has done for all models that share it is in `disk`.
  int64_t disk_hits = 0;                   ///< prompts that went on from pages of the disk
  int64_t disk_tokens = 0;                 ///< their tokens that were not computed
  int64_t disk_misses = 0;                 ///< prompts of which the disk had less than memory
  int64_t disk_failures = 0;               ///< prompts that were computed after all, as pages were wrong or late
  std::chrono::nanoseconds disk_time{0};   ///< from asking for pages until the last was there, summed
  std::chrono::nanoseconds disk_saved{0};  ///< estimated time of computing those tokens, less disk_time
  bool has_disk = false;                   ///< whether there is a disk tier
  cache::disk::StoreCounts disk{};         ///< of the folder
  int64_t disk_pages_dropped = 0;          ///< pages not written, as the queue was full or the day's bytes spent
  // Pages of the group that is fullest: total = used by sequences + cached (evictable) + free.
  int32_t pages_total = 0;
  int32_t pages_cached = 0;
  int32_t pages_free = 0;
  // Slots of recurrent states, counted in the same way; none where the model has no recurrent layers.
  int32_t states_total = 0;
  int32_t states_cached = 0;
  int32_t states_free = 0;
};

/// Distributions since the start; without bounds where an engine has none.
struct EngineHistograms {
  HistogramCounts step_seconds;
  HistogramCounts step_rows;
  HistogramCounts step_sequences;
  HistogramCounts inter_token_seconds;  ///< from one step that gave a stream tokens to the next
};
/// How much the last step counts in EngineStats::average_step_time.
inline constexpr double kStepAverageShare = 0.1;

/// How a request's prompt met the prefix cache, for the last kPrefixReportsMax requests admitted.
struct PrefixReport {
  std::string id;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  /// Position of the first token that differs from what was cached beside the match; -1: nothing was cached there.
  int32_t mismatch_position = -1;
  TokenId mismatch_token = kNoToken;  ///< the cached token at that position
  /// Up to kReportTokensAround tokens before mismatch_position, the token there, and as many after.
  std::vector<TokenId> prompt_around;
  int32_t disk_tokens = 0;  ///< tokens that the disk tier has beyond those and that are loaded
  std::string disk_miss;    ///< why it has no more, in words; empty without a tier
};
inline constexpr size_t kPrefixReportsMax = 256;
inline constexpr int32_t kReportTokensAround = 8;

}  // namespace cairn::engine
