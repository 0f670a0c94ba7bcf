/// Samples that the runner takes itself, from rows of a step's logits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "model/runner.h"

namespace cairn::engine {

/// Thread: the engine's.
class SampleBatch {
 public:
  /// Reserves memory for that many samples; the memory for their changes of logits is kept from step to step.
  void reserve(int32_t batch_tokens_max) {
    samples_.reserve(static_cast<size_t>(batch_tokens_max));
    sampled_.reserve(static_cast<size_t>(batch_tokens_max));
    allowed_.reserve(static_cast<size_t>(batch_tokens_max));
  }
  /// Starts an empty list of samples, for a step or another part of one.
  void begin() {
    samples_.clear();
    changes_.clear();
    allowed_.clear();
  }
  /// Adds a sample of a row after those added before. Its changes of logits are in changes() already.
  void add(const kernels::SampleRequest& request) { samples_.push_back(request); }
  std::vector<kernels::LogitChange>& changes() { return changes_; }
  /// The row's sample is one of these tokens. `words` outlive run().
  void allow(int32_t row, std::span<const uint64_t> words) { allowed_.push_back({row, words}); }
  /// Takes the samples. Errors: those of Runner::sample.
  Result<void> run(model::Runner& runner) {
    sampled_.resize(samples_.size());
    return runner.sample(samples_, changes_, allowed_, sampled_);
  }
  /// The sample of a row; null if there is none.
  const kernels::SampleResult* of(int64_t row) const;

 private:
  std::vector<kernels::SampleRequest> samples_;
  std::vector<kernels::LogitChange> changes_;
  std::vector<kernels::AllowedTokens> allowed_;
  std::vector<kernels::SampleResult> sampled_;
};

}  // namespace cairn::engine
