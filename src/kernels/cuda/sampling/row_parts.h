/// Passes over whole rows of logits that are divided among many thread blocks, since one block alone cannot read a row
/// as fast as memory gives it.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch_queue.h"
#include "kernels/host_device.h"
#include "kernels/sampler_operations.h"

namespace cairn::kernels::cuda {

/// Maximum number of parts of a row.
inline constexpr int32_t kRowParts = 32;
/// Tokens of each part but the last one: a multiple of 32.
CAIRN_HOST_DEVICE constexpr int32_t part_tokens(int64_t vocabulary) {
  return static_cast<int32_t>((vocabulary + kRowParts * 32 - 1) / (kRowParts * 32) * 32);
}
CAIRN_HOST_DEVICE constexpr int32_t part_count(int64_t vocabulary) {
  return static_cast<int32_t>((vocabulary + part_tokens(vocabulary) - 1) / part_tokens(vocabulary));
}

/// Candidates are put into bins by their distance from the largest logit.
inline constexpr int32_t kCandidateBins = 1024;

/// Which sums over its row, as the model gave it, a sample needs.
struct WantedSums {
  bool plain = false;  ///< of weights with temperature 1: for log-probabilities and top-p
  bool drawn = false;  ///< with the sample's temperature: of the tokens that min-p keeps, to draw one in their order
  bool bins = false;   ///< of candidates in each bin: to sort the most likely ones
  CAIRN_HOST_DEVICE constexpr bool any() const { return plain || drawn || bins; }
};
CAIRN_HOST_DEVICE constexpr WantedSums wanted_sums(const SampleRequest& request, int64_t vocabulary) {
  const bool by_rank = request.top_k > 0 && request.top_k < vocabulary;
  const bool draws = request.forced < 0 && request.temperature != 0 && request.change_count() == 0;
  const bool sorts = draws && (by_rank || request.top_p < 1);
  return {request.top_logprobs >= 0 || (sorts && !by_rank), draws && !sorts, request.top_logprobs > 0 || sorts};
}

/// What is known of the rows of samples. Of the kRowParts parts of each row, part_count() are valid.
struct RowParts {
  uint64_t* firsts = nullptr;  ///< [samples, kRowParts] keys of their most likely tokens (logits.cuh)
  // Sums, where they are wanted and the row's largest logit is finite.
  uint64_t* plain = nullptr;  ///< [samples, kRowParts]
  uint64_t* drawn = nullptr;  ///< [samples, kRowParts]
  int32_t* bins = nullptr;    ///< [samples, kCandidateBins]
};
constexpr int64_t row_parts_bytes(int64_t samples) {
  return samples * (kRowParts * int64_t{3 * sizeof(uint64_t)} + kCandidateBins * int64_t{sizeof(int32_t)});
}
inline RowParts row_parts_in(void* memory, int64_t samples) {
  auto* const first = static_cast<uint64_t*>(memory);
  const int64_t parts = samples * kRowParts;
  return {first, first + parts, first + 2 * parts, reinterpret_cast<int32_t*>(first + 3 * parts)};
}

/// Rows of logits and what is sampled from them, on the device.
struct SampledRows {
  const float* logits = nullptr;  ///< [rows, vocabulary]
  int64_t vocabulary = 0;
  const SampleRequest* samples = nullptr;  ///< [count]
  int32_t count = 0;
};
void find_firsts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts);
/// Called after find_firsts().
void sum_parts(LaunchQueue& stream, const SampledRows& rows, const RowParts& parts);

}  // namespace cairn::kernels::cuda
