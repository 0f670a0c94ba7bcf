/// Sums and maxima over a warp or a block, in an order that depends only on its size.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::cuda {

// An addition that is never fused with a product.
__device__ inline float add_rounded(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add_rounded(double a, double b) { return __dadd_rn(a, b); }

/// The sum over the warp, in all lanes: neighbours are added first, then pairs of neighbours, and so on.
template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    value = add_rounded(value, __shfl_xor_sync(kAllLanes, value, apart));
  }
  return value;
}

/// The largest number of the warp; NaN only if all are.
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, apart));
  return value;
}

/// The sum over the kThreads threads that share a row, in all of them: a warp, or a whole block, whose warps are added
/// in order.
template <int kThreads>
__device__ double row_sum(double value) {
  value = warp_sum(value);
  if constexpr (kThreads > kWarp) {
    __shared__ double of_warps[kThreads / kWarp];
    __syncthreads();  // the sum before this one has been read
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warps[0];
#pragma unroll
    for (int w = 1; w < kThreads / kWarp; ++w) value += of_warps[w];
  }
  return value;
}

/// The largest number over the kThreads threads that share a row.
template <int kThreads>
__device__ float row_max(float value) {
  value = warp_max(value);
  if constexpr (kThreads > kWarp) {
    __shared__ float of_warps[kThreads / kWarp];
    __syncthreads();  // the numbers before these have been read
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    for (const float other : of_warps) value = fmaxf(value, other);
  }
  return value;
}

}  // namespace cairn::cuda
