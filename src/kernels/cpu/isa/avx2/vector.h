/// Eight float lanes of AVX2 with FMA and F16C.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"

namespace cairn::kernels::cpu {
namespace {

struct Vector {
  static constexpr int kLanes = 8;
  static constexpr int kRegisters = 16;
  typedef float F __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));

  static F set(float value) { return _mm256_set1_ps(value); }
  static I lane_numbers() { return I{0, 1, 2, 3, 4, 5, 6, 7}; }
  static F load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, F value) { _mm256_storeu_ps(to, value); }
  // Loads the first n < kLanes elements; the other lanes are 0.
  static F load_some(const float* from, int64_t n) { return _mm256_maskload_ps(from, first(n)); }
  static void store_some(float* to, F value, int64_t n) { _mm256_maskstore_ps(to, first(n), value); }
  static F load(const uint16_t* half) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(half)));
  }
  // Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const uint16_t* from) {
    return (F)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16);
  }
  static F load(const int8_t* from) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
  }
  // Loads 2 * kLanes elements as int16.
  static I widened(const int8_t* from) {
    return (I)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(uint16_t* half, F value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(half), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  // Keeps the value in a register: otherwise the compiler loads it again wherever it is used, and loads limit a loop of
  // multiply-adds.
  static F keep(F value) {
    asm("" : "+x"(value));
    return value;
  }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F sqrt(F x) { return _mm256_sqrt_ps(x); }
  // c plus the products of both int16 halves of each lane.
  static I add_pair_products(I a, I b, I c) { return (I)_mm256_madd_epi16((__m256i)a, (__m256i)b) + c; }

 private:
  static __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
