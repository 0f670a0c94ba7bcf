#include "engine/engine_counters.h"

#include <chrono>

namespace cairn {

EngineStats EngineCounters::stats(int32_t queued) const {
  EngineStats stats;
  stats.waiting_requests = queued + pending;
  stats.active_requests = active;
  stats.total_requests = total_requests;
  stats.cancelled_requests = cancelled_requests;
  stats.preemptions = preemptions;
  stats.tokens_generated = tokens_generated;
  stats.prompt_tokens = prompt_tokens;
  stats.cached_tokens = cached_tokens;
  stats.drafted_tokens = drafted_tokens;
  stats.accepted_tokens = accepted_tokens;
  stats.steps = steps;
  stats.step_time = std::chrono::nanoseconds(step_ns);
  stats.pages_restored = pages_restored;
  stats.disk_hits = disk_hits;
  stats.disk_tokens = disk_tokens;
  stats.disk_misses = disk_misses;
  stats.disk_failures = disk_failures;
  stats.disk_time = std::chrono::nanoseconds(disk_ns);
  stats.disk_saved = std::chrono::nanoseconds(disk_saved_ns);
  stats.pages_total = pages_total;
  stats.pages_cached = pages_cached;
  stats.pages_free = pages_free;
  return stats;
}

}  // namespace cairn
