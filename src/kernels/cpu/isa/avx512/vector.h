/// Sixteen float lanes of AVX-512.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"

namespace cairn::kernels::cpu {
namespace {

struct Vector {
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = 32;
  typedef float F __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));

  static F set(float value) { return _mm512_set1_ps(value); }
  static I lane_numbers() { return I{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
  static F load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, F value) { _mm512_storeu_ps(to, value); }
  // Loads the first n < kLanes elements; the other lanes are 0.
  static F load_some(const float* from, int64_t n) { return _mm512_maskz_loadu_ps(first(n), from); }
  static void store_some(float* to, F value, int64_t n) { _mm512_mask_storeu_ps(to, first(n), value); }
  static F load(const uint16_t* half) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(half)));
  }
  // Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const uint16_t* from) {
    return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))), 16);
  }
  static F load(const int8_t* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  // Loads 2 * kLanes elements as int16.
  static I widened(const int8_t* from) {
    return (I)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store(uint16_t* half, F value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(half), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  // Keeps the value in a register: otherwise the compiler loads it again wherever it is used, and loads limit a loop of
  // multiply-adds.
  static F keep(F value) {
#ifndef CAIRN_EMULATE_AVX512
    asm("" : "+v"(value));
#endif
    return value;
  }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F sqrt(F x) { return _mm512_sqrt_ps(x); }
  // c plus the products of both int16 halves of each lane.
  static I add_pair_products(I a, I b, I c) { return (I)_mm512_dpwssd_epi32((__m512i)c, (__m512i)a, (__m512i)b); }

 private:
  static __mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
};

}  // namespace
}  // namespace cairn::kernels::cpu
