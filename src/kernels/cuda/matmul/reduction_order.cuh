/// The order in which a float32 product's terms are added: the same for every element, following from the number of
/// columns alone, so that all its kernels give the same bytes. (For other types: mma_operands.cuh.)
///
/// The columns of a row are cut into steps of kFloatStep. Step s is of class s % 32. A class adds its steps in
/// ascending order, from 0, column after column with a fused multiply-add. The sums of the classes c, c + 8, c + 16 and
/// c + 24 are added in this order; the resulting eight sums are added in pairs, then in pairs of pairs, and so on.
///
/// In this order a warp may compute one element with a class to a lane, reading whole lines of memory; and eight warps
/// may compute a tile of elements together, a class to a warp, in four passes over every fourth piece of eight steps.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kClasses = 32;
inline constexpr int kPassClasses = 8;
inline constexpr int kPasses = kClasses / kPassClasses;
inline constexpr int kFloatStep = 8;

/// The sum of eight numbers, `stride` apart.
__device__ __forceinline__ float add_eight(const float* sums, int stride) {
  const float a = __fadd_rn(__fadd_rn(sums[0], sums[stride]), __fadd_rn(sums[2 * stride], sums[3 * stride]));
  const float b =
      __fadd_rn(__fadd_rn(sums[4 * stride], sums[5 * stride]), __fadd_rn(sums[6 * stride], sums[7 * stride]));
  return __fadd_rn(a, b);
}

/// Adds the sums of an element whose class c is in lane c; the result is in lane 0.
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

}  // namespace cairn::kernels::cuda
