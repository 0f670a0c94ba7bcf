/// bfloat16, the upper half of a float32, as bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

/// Rounds to nearest, ties to even; NaN stays NaN.
__device__ inline uint32_t bfloat16_of(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

}  // namespace cairn::kernels::cuda
