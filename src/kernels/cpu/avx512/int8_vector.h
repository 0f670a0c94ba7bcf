/// Vectors of the int8 products for AVX-512 with VNNI (see matmul_int8_body.h).
#pragma once

#include "kernels/cpu/avx512/vector.h"  // the intrinsics, or their emulation

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/int8_type.h"

namespace cairn::cpu {
namespace {

// With VNNI: four products of unsigned weights and signed activations straight into int32 (vpdpbusd).
struct Int8Vector {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  // 8 integer sums leave the scheduler half of the registers; 12 were slower on Zen 4, 16 spill. Emulation takes ten
  // times as long to compile.
#ifdef CAIRN_EMULATE_AVX512
  static constexpr int kTokens = 2;
#else
  static constexpr int kTokens = 8;
#endif
  static constexpr bool kInt16Sums = false;
  /// Whether many tokens want the type's codes unpacked first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) { return int8_traits(type).bits % 4 != 0; }
  static constexpr int vectors_at_once(Int8Shape /*shape*/) { return 1; }

  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static F load_floats(const float* from) { return _mm512_loadu_ps(from); }
  static F load_halves(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  /// The upper halves of floats.
  static F load_uppers(const std::byte* from) {
    const I wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static void store(void* to, I value) { _mm512_storeu_si512(to, value); }
  static void store(float* to, F value) { _mm512_storeu_ps(to, value); }

  static I masked(I v, int8_t mask) { return _mm512_and_si512(v, _mm512_set1_epi8(mask)); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  /// Within 16 bits, to the left or, if negative, to the right: mask what comes from the neighbour.
  static I shift(I v, int bits) {
    const __m128i count = _mm_cvtsi32_si128(bits >= 0 ? bits : -bits);
    return bits >= 0 ? _mm512_sll_epi16(v, count) : _mm512_srl_epi16(v, count);
  }
  template <int kBits>
  static I shift_right(I v) {
    return _mm512_srli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_dwords_right(I v) {
    return _mm512_srli_epi32(v, kBits);
  }
  /// The halves in the low 16 bits of the dwords.
  static F low_halves(I v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  template <int kPlane>
  static I eight_bits(I v) {
    return v;
  }
  static I table(const ByteTable& bytes) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes.bytes)));
  }
  /// The table's bytes at the indices, each below 16.
  static I look_up(I table, I indices) { return _mm512_shuffle_epi8(table, indices); }
  /// Byte `i` of the dwords, without and with its sign.
  static I byte(I dwords, int i) {
    return _mm512_and_si512(_mm512_srl_epi32(dwords, _mm_cvtsi32_si128(8 * i)), _mm512_set1_epi32(255));
  }
  static I signed_byte(I dwords, int i) {
    return _mm512_srai_epi32(_mm512_sll_epi32(dwords, _mm_cvtsi32_si128(24 - 8 * i)), 24);
  }
  static I factor(I dwords, int i) { return signed_byte(dwords, i); }
  /// As both int16 lanes: ready for vpmaddwd.
  static I pair(I dwords, int i) { return _mm512_or_si512(byte(dwords, i), _mm512_slli_epi32(byte(dwords, i), 16)); }
  static I pair_products(I lanes, I pairs) { return _mm512_dpwssd_epi32(_mm512_setzero_si512(), lanes, pairs); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }

  static F set(float value) { return _mm512_set1_ps(value); }
  static F multiply(F a, F b) { return _mm512_mul_ps(a, b); }
  static F multiply_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F multiply_subtract(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static I broadcast4(const std::byte* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return _mm512_set1_epi32(value);
  }
  static F broadcast_float(const std::byte* from) { return _mm512_castsi512_ps(broadcast4(from)); }

  /// sums[t] += group(k, v) * y[t], for k in [kBegin, kEnd).
  template <int kBegin, int kEnd, int T, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[1]) {
#pragma GCC unroll 8
    for (int k = kBegin; k < kEnd; ++k) {
      const I weights = source.template group<0>(k, v);
      for (int t = 0; t < T; ++t) {
        sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], weights, broadcast4(rows[t] + values + 4 * k));
      }
    }
  }

  /// -kOffset times the sum of the columns: of all, from offsets8, or of 16, from offsets32 (int8_row.h).
  template <int kOffset>
  static I whole_offset(const std::byte* offsets8) {
    if constexpr (kOffset == 0) return _mm512_setzero_si512();
    return pair_products(broadcast4(offsets8), _mm512_set1_epi16(kOffset / 8));
  }
  template <int kOffset>
  static I half_offset(const std::byte* offsets32) {
    if constexpr (kOffset == 0) return _mm512_setzero_si512();
    if constexpr (kOffset >= 32) return pair_products(broadcast4(offsets32), _mm512_set1_epi16(kOffset / 32));
    return _mm512_srai_epi32(pair_products(broadcast4(offsets32), _mm512_set1_epi16(1)), 3);
  }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    static_assert(R == 1);
    constexpr Int8Shape kShape = Source::kShape;
    if constexpr (kShape.factors) {
      static_assert(kShape.offset == 0 || kShape.offset == 4 || kShape.offset % 32 == 0);
      // |sum of (code - offset) y over 16 columns| * 128 is below 2^23.
      I sums[T][1];
      for (int t = 0; t < T; ++t) sums[t][0] = half_offset<kShape.offset>(rows[t] + at.offsets32);
      add_products<0, 4, T>(source, v, rows, at.values, sums);
      for (int t = 0; t < T; ++t) {
        dots[t][0] = _mm512_mullo_epi32(sums[t][0], source.factor(0, v));
        sums[t][0] = half_offset<kShape.offset>(rows[t] + at.offsets32 + 4);
      }
      add_products<4, 8, T>(source, v, rows, at.values, sums);
      for (int t = 0; t < T; ++t) {
        dots[t][0] = _mm512_add_epi32(dots[t][0], _mm512_mullo_epi32(sums[t][0], source.factor(1, v)));
      }
    } else {
      static_assert(kShape.offset % 8 == 0);
      for (int t = 0; t < T; ++t) dots[t][0] = whole_offset<kShape.offset>(rows[t] + at.offsets8);
      add_products<0, 8, T>(source, v, rows, at.values, dots);
    }
  }
};

}  // namespace
}  // namespace cairn::cpu
