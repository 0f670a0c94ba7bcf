/// Sums and maxima over a warp or a block, in an order that depends only on its size.
#pragma once

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

// An addition that is never fused with a product.
__device__ inline float add_rounded(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add_rounded(double a, double b) { return __dadd_rn(a, b); }

/// The sum over each `kLanes` neighbouring lanes of the warp, in all of them: neighbours are added first, then pairs of
/// neighbours, and so on.
template <int kLanes = kWarp, class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int apart = 1; apart < kLanes; apart *= 2) {
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

/// The largest of the warp's numbers, none of which is negative or NaN.
__device__ inline float warp_max_magnitude(float value) {
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(value)));
}

struct SumAndLargest {
  float sum;
  float largest;  // a magnitude, not NaN
};

/// The sum and the largest number over the kThreads threads that share a row, in all of them: a warp, or a whole block,
/// whose warps are added like lanes. Each call in a kernel has its own `kCall`, so that one barrier is enough.
template <int kThreads, int kCall = 0>
__device__ SumAndLargest row_sum_and_largest(SumAndLargest own) {
  own = {warp_sum(own.sum), warp_max_magnitude(own.largest)};
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    static_assert(kWarps <= kWarp && (kWarps & (kWarps - 1)) == 0);
    __shared__ float2 of_warps[kWarps];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = make_float2(own.sum, own.largest);
    __syncthreads();
    const float2 other = of_warps[threadIdx.x % kWarps];
    own = {warp_sum<kWarps>(other.x), warp_max_magnitude(other.y)};
  }
  return own;
}

/// The sum alone. These calls are counted apart from those of the others.
template <int kThreads, int kCall = 0>
__device__ float row_sum(float value) {
  value = warp_sum(value);
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    static_assert(kWarps <= kWarp && (kWarps & (kWarps - 1)) == 0);
    __shared__ float of_warps[kWarps];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warp_sum<kWarps>(of_warps[threadIdx.x % kWarps]);
  }
  return value;
}

/// The largest magnitude alone; likewise.
template <int kThreads, int kCall = 0>
__device__ float row_largest(float value) {
  value = warp_max_magnitude(value);
  if constexpr (kThreads > kWarp) {
    constexpr int kWarps = kThreads / kWarp;
    static_assert(kWarps <= kWarp);
    __shared__ float of_warps[kWarps];
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warp_max_magnitude(of_warps[threadIdx.x % kWarps]);
  }
  return value;
}

}  // namespace cairn::kernels::cuda
