/// Arithmetic on two binary16 numbers in a word, each rounded to nearest.
#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

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

/// (word & mask) | bits in one instruction; the compiler would make two of it.
__device__ __forceinline__ uint32_t and_or(uint32_t word, uint32_t mask, uint32_t bits) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
  return result;
}
/// The lower or upper number of `pair`, twice.
__device__ __forceinline__ uint32_t lower_twice(uint32_t pair) {
  uint32_t result;
  asm("{ .reg .f16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {lo, lo}; }" : "=r"(result) : "r"(pair));
  return result;
}
__device__ __forceinline__ uint32_t upper_twice(uint32_t pair) {
  uint32_t result;
  asm("{ .reg .f16 lo, hi; mov.b32 {lo, hi}, %1; mov.b32 %0, {hi, hi}; }" : "=r"(result) : "r"(pair));
  return result;
}

}  // namespace cairn::kernels::cuda
