/// Maps float32 numbers to integers of the same order.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

/// The rank of a number: larger for larger numbers, equal for zeros of both signs; NaN has the rank of -infinity.
__device__ inline uint32_t rank_of(float number) {
  if (number == 0) number = 0;
  const uint32_t bits = __float_as_uint(number >= -INFINITY ? number : -INFINITY);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/// The number with that rank.
__device__ inline float number_of(uint32_t rank) {
  return __uint_as_float((rank >> 31) != 0 ? rank & 0x7fffffffu : ~rank);
}

}  // namespace cairn::kernels::cuda
