#include "engine/engine_counters.h"

#include <chrono>

namespace cairn::engine {

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
  stats.drafts = drafts;
  stats.drafted_tokens = drafted_tokens;
  stats.accepted_tokens = accepted_tokens;
  stats.steps = steps;
  stats.step_time = std::chrono::nanoseconds(step_ns);
  stats.rested_time = std::chrono::nanoseconds(rested_ns);
  stats.failed_steps = failed_steps;
  stats.limited_steps = limited_steps;
  stats.last_step_time = std::chrono::nanoseconds(last_step_ns);
  stats.average_step_time = std::chrono::nanoseconds(average_step_ns);
  stats.last_prompt_rows = last_prompt_rows;
  stats.last_decode_rows = last_decode_rows;
  stats.prefix_lookups = prefix_lookups;
  stats.prefix_hits = prefix_hits;
  stats.prefix_evictions = prefix_evictions;
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
  stats.states_total = states_total;
  stats.states_cached = states_cached;
  stats.states_free = states_free;
  return stats;
}

EngineHistograms EngineCounters::histograms() const {
  return {step_seconds.counts(), step_rows.counts(), step_sequences.counts(), inter_token_seconds.counts()};
}

void EngineCounters::count_step(int64_t ns, int32_t prompt_rows, int32_t decode_rows, int32_t sequences) {
  step_ns += ns;
  last_step_ns = ns;
  const int64_t before = average_step_ns;
  average_step_ns =
      before == 0 ? ns : before + static_cast<int64_t>(kStepAverageShare * static_cast<double>(ns - before));
  last_prompt_rows = prompt_rows;
  last_decode_rows = decode_rows;
  step_seconds.add(static_cast<double>(ns) * 1e-9);
  step_rows.add(prompt_rows + decode_rows);
  step_sequences.add(sequences);
}

}  // namespace cairn::engine
