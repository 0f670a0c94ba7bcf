#include "engine/speculation/argmax_sampler.h"

#include <algorithm>

#include "sampling/logit_scan.h"

namespace cairn::engine {

ArgmaxSampler::ArgmaxSampler(model::Runner& runner, int32_t batch_tokens_max, int64_t vocabulary)
    : runner_(runner), vocabulary_(std::min(vocabulary, runner.vocabulary())), keeps_(runner.samples_on_device()) {
  if (keeps_) samples_.reserve(batch_tokens_max);
  block_max_.reserve(sampling::scan_blocks(static_cast<size_t>(vocabulary_)));
  tokens_.reserve(static_cast<size_t>(batch_tokens_max));
}

Result<std::span<const TokenId>> ArgmaxSampler::of(const model::LogitsView& logits, size_t rows) {
  tokens_.clear();
  if (!keeps_) {
    for (size_t row = 0; row < rows; ++row) {
      const std::span<const float> values =
          logits.row(static_cast<int64_t>(row)).first(static_cast<size_t>(vocabulary_));
      tokens_.push_back(sampling::scan_first(values, block_max_, sampling::scan_maxima(values, block_max_)));
    }
    return tokens_;
  }
  samples_.begin();
  for (size_t row = 0; row < rows; ++row) samples_.add({.row = static_cast<int32_t>(row), .temperature = 0});
  CAIRN_TRY_VOID(samples_.run(runner_));
  for (size_t row = 0; row < rows; ++row) {
    const int32_t token = samples_.of(static_cast<int64_t>(row))->token;
    tokens_.push_back(token < 0 || token >= vocabulary_ ? kNoToken : TokenId{token});
  }
  return tokens_;
}

}  // namespace cairn::engine
