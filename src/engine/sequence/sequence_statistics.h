/// What a sequence has used so far, as its finish tells.
#pragma once

#include <chrono>
#include <cstdint>

#include "engine/event.h"

namespace cairn::engine {

/// Thread: the engine's.
class SequenceStatistics {
 public:
  explicit SequenceStatistics(int64_t arrival_ns) : arrival_ns_(arrival_ns) {}

  /// Called whenever it begins to run; the first time counts.
  void admitted(int64_t now_ns);
  bool was_admitted() const { return admitted_ns_ != 0; }
  void preempted() { ++timings_.preemptions; }
  void found_in_cache(int32_t tokens, bool on_disk = false);
  int32_t cached_tokens() const { return cached_tokens_; }
  /// The nanoseconds since its last tokens; 0 of the first.
  int64_t token_at(int64_t now_ns);
  void drafted(int32_t proposed, int32_t accepted);

  std::chrono::nanoseconds since_admission(int64_t now_ns) const {
    return std::chrono::nanoseconds(now_ns - admitted_ns_);
  }
  /// What its finish says of the cache; the tokens of prompt and answer are not counted here.
  Usage usage() const { return {.cached_tokens = cached_tokens_, .disk_tokens = disk_tokens_}; }
  const Timings& timings() const { return timings_; }

 private:
  int64_t arrival_ns_;
  int64_t admitted_ns_ = 0;
  int64_t last_token_ns_ = 0;
  int32_t cached_tokens_ = 0;
  int32_t disk_tokens_ = 0;
  Timings timings_;
};

}  // namespace cairn::engine
