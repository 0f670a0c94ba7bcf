#include "engine/sequence/sequence_statistics.h"

#include <algorithm>

namespace cairn::engine {

using std::chrono::nanoseconds;

void SequenceStatistics::admitted(int64_t now_ns) {
  if (was_admitted()) return;
  admitted_ns_ = now_ns;
  timings_.queue = nanoseconds(now_ns - arrival_ns_);
}

void SequenceStatistics::found_in_cache(int32_t tokens, bool on_disk) {
  // Tokens that a preempted sequence finds again are not counted as cached: they saved its client nothing.
  if (timings_.preemptions != 0 || last_token_ns_ != 0) return;
  cached_tokens_ += tokens;
  if (on_disk) disk_tokens_ += tokens;
}

int64_t SequenceStatistics::token_at(int64_t now_ns) {
  nanoseconds gap(0);
  if (last_token_ns_ == 0) {
    timings_.prefill = since_admission(now_ns);
  } else {
    gap = nanoseconds(now_ns - last_token_ns_);
    timings_.decode += gap;
    timings_.max_inter_token_latency = std::max(timings_.max_inter_token_latency, gap);
  }
  last_token_ns_ = now_ns;
  return gap.count();
}

void SequenceStatistics::drafted(int32_t proposed, int32_t accepted) {
  timings_.drafted += proposed;
  timings_.accepted += accepted;
}

}  // namespace cairn::engine
