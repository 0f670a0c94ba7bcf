/// Arithmetic on two binary16 numbers in a word, each rounded to nearest.
#pragma once

#include <cstdint>

namespace cairn::cuda {

__device__ __forceinline__ uint32_t subtract_two(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
__device__ __forceinline__ uint32_t multiply_two(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
/// a b + c, rounded once.
__device__ __forceinline__ uint32_t multiply_add_two(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

}  // namespace cairn::cuda
