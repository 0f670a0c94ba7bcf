/// The compiler's x86 intrinsics; or, with CAIRN_EMULATE_AVX512, SIMDe's emulation of the AVX-512 ones, so that
/// cpu/isa/avx512/, avx512bf16/ and avxvnni/ are tested on processors without them (tests/emulation/cpu).
#pragma once

#if defined(__x86_64__)
#ifdef CAIRN_EMULATE_AVX512

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

// Intrinsics that SIMDe lacks. Their names are macros because the compiler's own functions of these names are declared
// too.
namespace cairn::kernels::cpu {
namespace {
struct MissingAvx512 {
  static simde__m512 maskz_loadu_ps(simde__mmask16 mask, const void* from) {
    float lanes[16] = {};
    for (int i = 0; i < 16; ++i) {
      if ((mask >> i & 1) != 0) __builtin_memcpy(lanes + i, static_cast<const char*>(from) + i * sizeof(float), 4);
    }
    return simde_mm512_loadu_ps(lanes);
  }
  static void stream_ps(float* to, simde__m512 value) { simde_mm512_store_ps(to, value); }
  static void mask_storeu_ps(void* to, simde__mmask16 mask, simde__m512 value) {
    float lanes[16];
    simde_mm512_storeu_ps(lanes, value);
    for (int i = 0; i < 16; ++i) {
      if ((mask >> i & 1) != 0) __builtin_memcpy(static_cast<char*>(to) + i * sizeof(float), lanes + i, 4);
    }
  }
  static simde__m512 cvtph_ps(simde__m256i half) {
    float lanes[16];
    simde_mm256_storeu_ps(lanes, _mm256_cvtph_ps(simde_mm256_extracti128_si256(half, 0)));
    simde_mm256_storeu_ps(lanes + 8, _mm256_cvtph_ps(simde_mm256_extracti128_si256(half, 1)));
    return simde_mm512_loadu_ps(lanes);
  }
  static simde__m256i cvtps_ph(simde__m512 value, int /*to nearest*/) {
    float lanes[16];
    simde_mm512_storeu_ps(lanes, value);
    const simde__m128i low = _mm256_cvtps_ph(simde_mm256_loadu_ps(lanes), _MM_FROUND_TO_NEAREST_INT);
    const simde__m128i high = _mm256_cvtps_ph(simde_mm256_loadu_ps(lanes + 8), _MM_FROUND_TO_NEAREST_INT);
    return simde_mm256_set_m128i(high, low);
  }
  static simde__m512i cvtepu16_epi32(simde__m256i words) {
    return simde_mm512_inserti64x4(simde_mm512_castsi256_si512(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words))),
                                   _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1)), 1);
  }
  static simde__m512i cvtepi8_epi32(simde__m128i bytes) {
    return simde_mm512_inserti64x4(simde_mm512_castsi256_si512(_mm256_cvtepi8_epi32(bytes)),
                                   _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)), 1);
  }
  static simde__m256bh cvtneps_pbh(simde__m512 value) {
    uint32_t lanes[16];
    uint16_t words[16];
    simde_mm512_storeu_ps(lanes, value);
    for (int i = 0; i < 16; ++i) {
      const uint32_t magnitude = lanes[i] & 0x7fffffffu;
      if (magnitude > 0x7f800000u) {
        lanes[i] |= 0x400000u;
      } else if (magnitude < 0x800000u) {
        lanes[i] &= 0x80000000u;
      } else {
        lanes[i] += 0x7fffu + (lanes[i] >> 16 & 1);
      }
      words[i] = static_cast<uint16_t>(lanes[i] >> 16);
    }
    simde__m256bh rounded;
    __builtin_memcpy(&rounded, words, sizeof(words));
    return rounded;
  }
  static simde__m256i cvtepi32_epi16(simde__m512i value) {
    int32_t lanes[16];
    int16_t words[16];
    simde_mm512_storeu_si512(lanes, value);
    for (int i = 0; i < 16; ++i) words[i] = static_cast<int16_t>(lanes[i]);
    return simde_mm256_loadu_si256(reinterpret_cast<const simde__m256i*>(words));
  }
  static simde__m512i srai_epi32(simde__m512i value, int count) {
    int32_t lanes[16];
    simde_mm512_storeu_si512(lanes, value);
    for (int32_t& lane : lanes) lane >>= count;
    return simde_mm512_loadu_si512(lanes);
  }
  static simde__m512 cvtepi32_ps(simde__m512i value) {
    int32_t lanes[16];
    float floats[16];
    simde_mm512_storeu_si512(lanes, value);
    for (int i = 0; i < 16; ++i) floats[i] = static_cast<float>(lanes[i]);
    return simde_mm512_loadu_ps(floats);
  }
};
}  // namespace
}  // namespace cairn::kernels::cpu
#define _mm512_cvtepu16_epi32 ::cairn::kernels::cpu::MissingAvx512::cvtepu16_epi32
#define _mm512_cvtepi8_epi32 ::cairn::kernels::cpu::MissingAvx512::cvtepi8_epi32
#define _mm512_cvtneps_pbh ::cairn::kernels::cpu::MissingAvx512::cvtneps_pbh
#define _mm512_cvtepi32_epi16 ::cairn::kernels::cpu::MissingAvx512::cvtepi32_epi16
#define _mm512_srai_epi32 ::cairn::kernels::cpu::MissingAvx512::srai_epi32
#define _mm512_cvtepi32_ps ::cairn::kernels::cpu::MissingAvx512::cvtepi32_ps
#define _mm512_maskz_loadu_ps ::cairn::kernels::cpu::MissingAvx512::maskz_loadu_ps
#define _mm512_stream_ps ::cairn::kernels::cpu::MissingAvx512::stream_ps
#define _mm512_mask_storeu_ps ::cairn::kernels::cpu::MissingAvx512::mask_storeu_ps
#define _mm512_cvtph_ps ::cairn::kernels::cpu::MissingAvx512::cvtph_ps
#define _mm512_cvtps_ph ::cairn::kernels::cpu::MissingAvx512::cvtps_ph

#else
#include <immintrin.h>
#endif
#endif
