/// Rows of logits: candidates in the order of their likelihood, their weights, and loops over rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sampling/row_parts.h"
#include "kernels/cuda/sampling/sortable_float.cuh"

namespace cairn::kernels::cuda {

/// A sort key that is smaller for more likely candidates: for larger logits, and of equal ones for the lower token.
using Key = uint64_t;
inline constexpr Key kNoKey = UINT64_MAX;  // after all others
__device__ inline Key key_of(float logit, int32_t token) {
  return static_cast<Key>(~rank_of(logit)) << 32 | static_cast<uint32_t>(token);
}
__device__ inline float logit_of(Key key) { return number_of(~static_cast<uint32_t>(key >> 32)); }
__device__ inline int32_t token_of(Key key) { return static_cast<int32_t>(key & 0xffffffffu); }

/// The weight of the largest logit.
inline constexpr float kWeightOne = 0x1p44f;
static_assert(uint64_t{kSampleVocabularyMax} << 44 > 0);
/// The weight of a logit; 0 for a token that cannot be sampled.
__device__ inline uint64_t weight_of(float logit, float largest, float temperature) {
  if (!(logit > -INFINITY)) return 0;
  return static_cast<uint64_t>(expf(__fdiv_rn(__fsub_rn(logit, largest), temperature)) * kWeightOne);
}

/// The bin of a logit that is above -infinity.
inline constexpr float kBinsPerNat = 32;
__device__ inline int32_t bin_of(float largest, float logit) {
  const float bins = __fsub_rn(largest, logit) * kBinsPerNat;
  return bins < kCandidateBins - 1 ? static_cast<int32_t>(bins) : kCandidateBins - 1;
}

__device__ inline int32_t own_warp() { return static_cast<int32_t>(threadIdx.x) / kWarp; }
__device__ inline int32_t own_lane() { return static_cast<int32_t>(threadIdx.x) % kWarp; }

__device__ inline Key warp_min(Key own) {
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const Key other = __shfl_xor_sync(kAllLanes, own, apart);
    own = other < own ? other : own;
  }
  return own;
}
__device__ inline uint64_t warp_total(uint64_t own) {
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) own += __shfl_xor_sync(kAllLanes, own, apart);
  return own;
}

/// The key of the most likely token in the row of sample blockIdx.x. find_firsts() has run before; all lanes of a warp
/// call this together.
__device__ inline Key first_of_row(const RowParts& parts, int64_t vocabulary) {
  const bool has_part = own_lane() < part_count(vocabulary);
  return warp_min(has_part ? parts.firsts[int64_t{blockIdx.x} * kRowParts + own_lane()] : kNoKey);
}

/// Calls f(logit, token) for a share of the tokens [begin, end), the one of number `own` of `sharers`. Many loads are
/// in flight at a time. `begin` is a multiple of four.
template <class F>
__device__ void for_logits(const float* logits, int32_t begin, int32_t end, int32_t own, int32_t sharers, F f) {
  constexpr int kAtOnce = 4;
  if (reinterpret_cast<uintptr_t>(logits) % 16 == 0) {
    const int32_t whole = begin + (end - begin) / 4 * 4;
    for (int32_t first = begin + 4 * own; first < whole; first += 4 * kAtOnce * sharers) {
      float4 loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int32_t at = first + 4 * i * sharers;
        if (at < whole) loaded[i] = *reinterpret_cast<const float4*>(logits + at);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int32_t at = first + 4 * i * sharers;
        if (at >= whole) break;
        f(loaded[i].x, at);
        f(loaded[i].y, at + 1);
        f(loaded[i].z, at + 2);
        f(loaded[i].w, at + 3);
      }
    }
    begin = whole;
  }
#pragma unroll 4
  for (int32_t at = begin + own; at < end; at += sharers) f(logits[at], at);
}

/// The most likely of the candidates that it is called with, in the order of their tokens.
class MostLikely {
 public:
  __device__ void operator()(float logit, int32_t token) {
    if (!(logit > logit_)) return;
    logit_ = logit;
    token_ = token;
  }
  /// The key of the most likely candidate, or of the logit -infinity if there was none above it.
  __device__ Key key() const { return key_of(logit_, token_); }

 private:
  float logit_ = -INFINITY;
  int32_t token_ = 0;
};

}  // namespace cairn::kernels::cuda
