/// Counters of an engine core.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/engine_stats.h"

namespace cairn {

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
  std::atomic<int64_t> drafted_tokens = 0;
  std::atomic<int64_t> accepted_tokens = 0;
  std::atomic<int64_t> steps = 0;
  std::atomic<int64_t> step_ns = 0;
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

  /// A snapshot. `queued` is the number of requests in the queue, read before: a request admitted in between is counted
  /// twice rather than not at all. Callable from any thread.
  EngineStats stats(int32_t queued) const;
};

}  // namespace cairn
