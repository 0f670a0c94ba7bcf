/// Replaces kernels/cuda/matmul/f16x2.cuh on the emulated GPU.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace cairn::kernels::cuda {

/// Applies f to each half of the arguments in double precision, in which products and most sums are exact, and rounds
/// to binary16.
template <class F, class... Words>
uint32_t for_two_halves(F f, Words... words) {
  const auto number = [](uint32_t bits) {
    return static_cast<double>(__half2float(__ushort_as_half(static_cast<unsigned short>(bits & 0xffffu))));
  };
  const auto bits = [](double value) { return uint32_t{__half_as_ushort(__float2half_rn(static_cast<float>(value)))}; };
  return bits(f(number(words)...)) | bits(f(number(words >> 16)...)) << 16;
}

inline uint32_t subtract_two(uint32_t a, uint32_t b) {
  return for_two_halves([](double x, double y) { return x - y; }, a, b);
}
inline uint32_t multiply_two(uint32_t a, uint32_t b) {
  return for_two_halves([](double x, double y) { return x * y; }, a, b);
}
inline uint32_t multiply_add_two(uint32_t a, uint32_t b, uint32_t c) {
  return for_two_halves([](double x, double y, double z) { return x * y + z; }, a, b, c);
}
inline uint32_t and_or(uint32_t word, uint32_t mask, uint32_t bits) { return (word & mask) | bits; }
inline uint32_t lower_twice(uint32_t pair) { return (pair & 0xffffu) * 0x00010001u; }
inline uint32_t upper_twice(uint32_t pair) { return (pair >> 16) * 0x00010001u; }

}  // namespace cairn::kernels::cuda
