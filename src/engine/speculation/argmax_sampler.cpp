#include "engine/speculation/argmax_sampler.h"

#include <algorithm>
#include <cmath>

#include "sampling/logit_scan.h"

namespace cairn::engine {
namespace {

/// The softmax of the largest logit.
float share_of_largest(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return static_cast<float>(1 / sum);
}

}  // namespace

ArgmaxSampler::ArgmaxSampler(model::Runner& runner, int32_t batch_tokens_max, int64_t vocabulary)
    : runner_(runner), vocabulary_(std::min(vocabulary, runner.vocabulary())), keeps_(runner.samples_on_device()) {
  if (keeps_) samples_.reserve(batch_tokens_max);
  block_max_.reserve(sampling::scan_blocks(static_cast<size_t>(vocabulary_)));
  tokens_.reserve(static_cast<size_t>(batch_tokens_max));
  probabilities_.reserve(static_cast<size_t>(batch_tokens_max));
}

Result<std::span<const TokenId>> ArgmaxSampler::of(const model::LogitsView& logits, size_t rows,
                                                   bool with_probabilities) {
  tokens_.clear();
  probabilities_.clear();
  if (!keeps_) {
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const float> values =
          logits.row(static_cast<int64_t>(row)).first(static_cast<size_t>(vocabulary_));
      const float largest = sampling::scan_maxima(values, block_max_);
      tokens_.push_back(sampling::scan_first(values, block_max_, largest));
      if (with_probabilities) probabilities_.push_back(share_of_largest(values, largest));
    }
    return tokens_;
  }
  samples_.begin();
  for (size_t row = 0; row < rows; ++row)
    samples_.add({.row = static_cast<int32_t>(row), .temperature = 0, .top_logprobs = with_probabilities ? 0 : -1});
  CAIRN_TRY_VOID(samples_.run(runner_));
  for (size_t row = 0; row < rows; ++row) {
    const kernels::SampleResult& sample = *samples_.of(static_cast<int64_t>(row));
    tokens_.push_back(sample.token < 0 || sample.token >= vocabulary_ ? kNoToken : TokenId{sample.token});
    if (with_probabilities)
      probabilities_.push_back(static_cast<float>(std::exp(sample.logit - sample.largest) / sample.sum));
  }
  return tokens_;
}

}  // namespace cairn::engine
