/// The order in which a product's terms are added: one for every element, which follows from the number of columns
/// alone, so that all kernels give the same bytes.
///
/// The columns of a row are cut into steps, of kGroupColumns for quantised types and kFloatStep for the others. Step s
/// is of class s % 32. A class adds its steps in ascending order, from 0: quantised ones by add_group, the others
/// column after column with a fused multiply-add. Of the classes c, c + 8, c + 16 and c + 24 the sums are added in this
/// order, and the eight sums that this gives in pairs, in pairs of pairs, and those.
///
/// So a warp may compute one element with a class to a lane, reading whole lines of memory; and eight warps may compute
/// a tile of elements together, a class to a warp, in four passes over every fourth piece of eight steps.
#pragma once

#include <cstdint>

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/launch.cuh"

namespace cairn::cuda {

inline constexpr int kClasses = 32;
inline constexpr int kPassClasses = 8;
inline constexpr int kPasses = kClasses / kPassClasses;
inline constexpr int kFloatStep = 8;

/// The sum of a group whose halves have `first` and `second`, times their factors. Of kLarge both products are exact.
template <class F, class Factor>
__device__ __forceinline__ float join_halves(Factor first_factor, int32_t first, Factor second_factor, int32_t second) {
  if constexpr (F::kFactors == Factors::kLarge) {
    const float product = __fmul_rn(static_cast<float>(first_factor), static_cast<float>(first));
    return __fmaf_rn(static_cast<float>(second_factor), static_cast<float>(second), product);
  } else if constexpr (F::kFactors == Factors::kSmall) {
    return static_cast<float>(first_factor * first + second_factor * second);
  } else {
    return static_cast<float>(first + second);
  }
}

/// A group's term of a quantised row: `sum` of codes (times factors) and activations' codes, and for minima the sum of
/// the activations' codes (times integer minima), already scaled by `input_scale`.
template <class F>
__device__ __forceinline__ float add_group(float total, float scale, float minimum, float input_scale, float sum,
                                           float scaled_minima) {
  total = __fmaf_rn(scale, __fmul_rn(input_scale, sum), total);
  if constexpr (F::kMinima != Minima::kNone) total = __fmaf_rn(-minimum, scaled_minima, total);
  return total;
}

/// The sum of the eight, with stride `stride`.
__device__ __forceinline__ float add_eight(const float* sums, int stride) {
  const float a = __fadd_rn(__fadd_rn(sums[0], sums[stride]), __fadd_rn(sums[2 * stride], sums[3 * stride]));
  const float b =
      __fadd_rn(__fadd_rn(sums[4 * stride], sums[5 * stride]), __fadd_rn(sums[6 * stride], sums[7 * stride]));
  return __fadd_rn(a, b);
}

/// The element whose class c is in lane c; the result is in lane 0.
__device__ __forceinline__ float add_lanes(float lane_sum) {
  const float second = __shfl_down_sync(kAllLanes, lane_sum, kPassClasses);
  const float third = __shfl_down_sync(kAllLanes, lane_sum, 2 * kPassClasses);
  const float fourth = __shfl_down_sync(kAllLanes, lane_sum, 3 * kPassClasses);
  float sum = __fadd_rn(__fadd_rn(__fadd_rn(lane_sum, second), third), fourth);
  for (int distance = 1; distance < kPassClasses; distance *= 2) {
    sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, distance));
  }
  return sum;
}

}  // namespace cairn::cuda
