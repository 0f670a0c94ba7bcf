/// Passes over whole rows of logits that are divided among many thread blocks, since one block alone cannot read a row
/// as fast as memory gives it.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch_queue.h"
#include "kernels/host_device.h"
#include "kernels/sampler_operations.h"

namespace cairn::cuda {

/// Maximum number of parts of a row.
inline constexpr int32_t kRowParts = 32;
/// Tokens of each part but the last one: a multiple of 32.
CAIRN_HOST_DEVICE constexpr int32_t part_tokens(int64_t vocabulary) {
  return static_cast<int32_t>((vocabulary + kRowParts * 32 - 1) / (kRowParts * 32) * 32);
}
CAIRN_HOST_DEVICE constexpr int32_t part_count(int64_t vocabulary) {
  return static_cast<int32_t>((vocabulary + part_tokens(vocabulary) - 1) / part_tokens(vocabulary));
}

/// Which sums of weights a sample takes from its row as the model gave it.
struct WantedSums {
  bool plain = false;  ///< with temperature 1: for log-probabilities and top-p
  bool drawn = false;  ///< with the sample's temperature: of the tokens that min-p keeps, to draw one in their order
  CAIRN_HOST_DEVICE constexpr bool any() const { return plain || drawn; }
};
CAIRN_HOST_DEVICE constexpr WantedSums wanted_sums(const SampleRequest& request, int64_t vocabulary) {
  const bool by_rank = request.top_k > 0 && request.top_k < vocabulary;
  const bool draws = request.forced < 0 && request.temperature != 0 && request.change_count() == 0 && !by_rank;
  return {request.top_logprobs >= 0 || (draws && request.top_p < 1), draws && request.top_p >= 1};
}

/// Of the parts of each sample's row: [samples, kRowParts], of which part_count() are valid.
struct RowParts {
  uint64_t* firsts = nullptr;  ///< keys of their most likely tokens (logits.cuh)
  uint64_t* plain = nullptr;   ///< sums of weights, where they are wanted and the row's largest logit is finite
  uint64_t* drawn = nullptr;
};
constexpr int64_t row_parts_bytes(int64_t samples) { return samples * kRowParts * int64_t{3 * sizeof(uint64_t)}; }
inline RowParts row_parts_in(void* memory, int64_t samples) {
  auto* const first = static_cast<uint64_t*>(memory);
  return {first, first + samples * kRowParts, first + 2 * samples * kRowParts};
}

/// Rows of logits and what is sampled from them, on the device.
struct SampledRows {
  const float* logits = nullptr;  ///< [rows, vocabulary]
  int64_t vocabulary = 0;
  const SampleRequest* samples = nullptr;  ///< [count]
  int32_t count = 0;
};
void find_firsts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts);
/// After find_firsts.
void sum_parts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts);

}  // namespace cairn::cuda
