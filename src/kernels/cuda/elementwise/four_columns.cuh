/// Accesses four neighbouring columns at a time, whatever their number and alignment.
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/global_memory.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

struct Four {
  float at[4];
};

/// Loads x[0, count), count in 1 .. 4, followed by zeros. With kAligned, `x` is at a multiple of 16 bytes and count is
/// 4.
template <bool kAligned>
__device__ Four load_four(const float* x, int64_t count) {
  if constexpr (kAligned) {
    const float4 v = *reinterpret_cast<const float4*>(x);
    return {{v.x, v.y, v.z, v.w}};
  } else {
    Four four;
#pragma unroll
    for (int k = 0; k < 4; ++k) four.at[k] = k < count ? x[k] : 0.0f;
    return four;
  }
}

/// Stores the first `count` of them to global memory.
template <bool kAligned>
__device__ void store_four(const Four& four, int64_t count, float* x) {
  if constexpr (kAligned) {
    store_whole(make_float4(four.at[0], four.at[1], four.at[2], four.at[3]), x);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k < count) x[k] = four.at[k];
    }
  }
}

/// Whether rows of `cols` that begin at these pointers can be read with kAligned.
template <class... T>
bool columns_aligned(int64_t cols, const T*... pointers) {
  return cols % 4 == 0 && aligned16(pointers...);
}

}  // namespace cairn::kernels::cuda
