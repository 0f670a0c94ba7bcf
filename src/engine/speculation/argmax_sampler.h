/// The most likely token of each row of logits, for drafters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/output/sample_batch.h"
#include "model/runner.h"

namespace cairn::engine {

/// Thread: the engine's.
class ArgmaxSampler {
 public:
  /// `batch_tokens_max` is the maximum of rows of a step. Tokens from `vocabulary` on are never chosen. The runner
  /// outlives this.
  ArgmaxSampler(model::Runner& runner, int32_t batch_tokens_max, int64_t vocabulary);
  /// The value for Batch::keep_logits.
  bool keeps_logits() const { return keeps_; }
  /// The most likely token of each of the first `rows` rows of the runner's last step or draft; kNoToken where there is
  /// none. Errors: those of Runner::sample.
  Result<std::span<const TokenId>> of(const model::LogitsView& logits, size_t rows, bool with_probabilities = false);
  /// How likely the token of that row of the last call with probabilities is, among all that are in the row.
  float probability(size_t row) const { return probabilities_[row]; }

 private:
  model::Runner& runner_;
  const int64_t vocabulary_;
  const bool keeps_;
  SampleBatch samples_;
  std::vector<float> block_max_;
  std::vector<TokenId> tokens_;
  std::vector<float> probabilities_;
};

}  // namespace cairn::engine
