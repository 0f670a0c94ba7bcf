/// Tokens of a step's rows of logits that the runner samples itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "model/runner.h"

namespace cairn {

/// Thread: the engine's.
class SampleBatch {
 public:
  /// For as many samples; what changes of logits take is kept from step to step.
  void reserve(int32_t batch_tokens_max) {
    samples_.reserve(static_cast<size_t>(batch_tokens_max));
    sampled_.reserve(static_cast<size_t>(batch_tokens_max));
  }
  /// For a step, or another part of one.
  void begin() {
    samples_.clear();
    changes_.clear();
  }
  /// Of a row behind those before. Its changes are in changes() already.
  void add(const SampleRequest& request) { samples_.push_back(request); }
  std::vector<LogitChange>& changes() { return changes_; }
  /// Makes the samples. Errors: Runner::sample's.
  Result<void> run(Runner& runner) {
    sampled_.resize(samples_.size());
    return runner.sample(samples_, changes_, sampled_);
  }
  /// Of a row; null if there is no sample from it.
  const SampleResult* of(int64_t row) const;

 private:
  std::vector<SampleRequest> samples_;
  std::vector<LogitChange> changes_;
  std::vector<SampleResult> sampled_;
};

}  // namespace cairn
