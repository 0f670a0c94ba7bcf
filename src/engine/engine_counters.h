/// Counters of an engine core.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/histogram.h"
#include "engine/engine_stats.h"

namespace cairn::engine {

/// Counters behind EngineStats. Only the engine's thread writes them, except total_requests.
struct EngineCounters {
  std::atomic<int32_t> active = 0;
  std::atomic<int32_t> pending = 0;
  std::atomic<int64_t> total_requests = 0;
  std::atomic<int64_t> cancelled_requests = 0;
  std::atomic<int64_t> preemptions = 0;
  std::atomic<int64_t> tokens_generated = 0;
  std::atomic<int64_t> prompt_tokens = 0;
  std::atomic<int64_t> cached_tokens = 0;
  std::atomic<int64_t> drafts = 0;
  std::atomic<int64_t> drafted_tokens = 0;
  std::atomic<int64_t> accepted_tokens = 0;
  std::atomic<int64_t> steps = 0;
  std::atomic<int64_t> step_ns = 0;
  std::atomic<int64_t> rested_ns = 0;
  std::atomic<int64_t> failed_steps = 0;
  std::atomic<int64_t> limited_steps = 0;
  std::atomic<int64_t> last_step_ns = 0;
  std::atomic<int64_t> average_step_ns = 0;
  std::atomic<int32_t> last_prompt_rows = 0;
  std::atomic<int32_t> last_decode_rows = 0;
  std::atomic<int64_t> prefix_lookups = 0;
  std::atomic<int64_t> prefix_hits = 0;
  std::atomic<int64_t> prefix_evictions = 0;
  std::atomic<int64_t> pages_restored = 0;
  std::atomic<int64_t> disk_hits = 0;
  std::atomic<int64_t> disk_tokens = 0;
  std::atomic<int64_t> disk_misses = 0;
  std::atomic<int64_t> disk_failures = 0;
  std::atomic<int64_t> disk_ns = 0;
  std::atomic<int64_t> disk_saved_ns = 0;
  std::atomic<int32_t> pages_total = 0;
  std::atomic<int32_t> pages_cached = 0;
  std::atomic<int32_t> pages_free = 0;
  std::atomic<int32_t> states_total = 0;
  std::atomic<int32_t> states_cached = 0;
  std::atomic<int32_t> states_free = 0;
  Histogram step_seconds{kStepSecondsBounds};
  Histogram step_rows{kSizeBounds};
  Histogram step_sequences{kSizeBounds};
  Histogram inter_token_seconds{kStepSecondsBounds};

  /// Counts a step that took `ns` nanoseconds. Called on the engine's thread.
  void count_step(int64_t ns, int32_t prompt_rows, int32_t decode_rows, int32_t sequences);
  /// A snapshot. `queued` is the number of requests in the queue, read before: a request admitted in between is counted
  /// twice rather than not at all. Callable from any thread.
  EngineStats stats(int32_t queued) const;
  EngineHistograms histograms() const;
};

}  // namespace cairn::engine
