/// Writes rows of keys, values or both, rounded as on the CPU (kernels/cpu/rows/kv_rounding_body.h).
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/weights/bfloat16.cuh"
#include "kernels/kv.h"

namespace cairn::kernels::cuda {

inline constexpr float kLargestHalf = 65504;
static_assert(kKvBlock == kWarp);

/// The bits of the largest magnitude of all lanes. Compared as integers, infinity is larger than numbers, and NaN
/// larger than both.
__device__ inline int32_t largest_magnitude(float x) {
  int32_t bits = __float_as_int(x) & 0x7fffffff;
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, bits, apart);
    bits = other > bits ? other : bits;
  }
  return bits;
}

/// Stores one block of a row, an element per lane; elements beyond the row's end count as 0.
__device__ inline void store_q8_0(float x, int32_t lane, std::byte* block) {
  const int32_t most = largest_magnitude(x);
  const float scale = __int_as_float(most) / 127.0f;
  const __half half =
      most > 0x7f800000 ? __ushort_as_half(0x7e00) : __float2half_rn(scale > kLargestHalf ? kLargestHalf : scale);
  const float rounded = __half2float(half);
  const float inverse = rounded > 0 ? 1.0f / rounded : 0.0f;
  float value = __fmul_rn(x, inverse);
  value = value > 127.0f ? 127.0f : value;
  value = value < -127.0f ? -127.0f : value;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const int32_t whole = __float_as_int(__fadd_rn(value, 12582912.0f));
  if (lane == 0) *reinterpret_cast<__half*>(block) = half;
  reinterpret_cast<int8_t*>(block + sizeof(__half))[lane] = static_cast<int8_t>(whole & 255);
}

/// Stores elements [begin, begin + 32) of a row of `dim` elements; called by a whole warp.
template <KvType kType>
__device__ void store_block(const float* x, int32_t begin, int32_t dim, std::byte* row) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t d = begin + lane;
  const float value = d < dim ? x[d] : 0.0f;
  if constexpr (kType == KvType::kQ8_0) {
    store_q8_0(value, lane, row + begin / kKvBlock * kKvBlockBytes);
  } else if (d < dim) {
    if constexpr (kType == KvType::kF32) {
      reinterpret_cast<float*>(row)[d] = value;
    } else if constexpr (kType == KvType::kBF16) {
      reinterpret_cast<uint16_t*>(row)[d] = static_cast<uint16_t>(bfloat16_of(value));
    } else {
      static_assert(kType == KvType::kF16);
      const float most = value > kLargestHalf ? kLargestHalf : value;
      reinterpret_cast<__half*>(row)[d] = __float2half_rn(most < -kLargestHalf ? -kLargestHalf : most);
    }
  }
}

}  // namespace cairn::kernels::cuda
