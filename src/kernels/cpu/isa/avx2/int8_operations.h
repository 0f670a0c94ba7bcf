/// Small operations of the int8 products for AVX2 (see matmul_int8_body.h).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

struct Int8Operations {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8;

  static I load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
  static F load_floats(const float* from) { return _mm256_load_ps(from); }
  static F load_halves(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  }
  /// Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const std::byte* from) {
    const I wide = _mm256_cvtepu16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  static void store(void* to, I value) { _mm256_store_si256(static_cast<__m256i*>(to), value); }
  static void store(float* to, F value) { _mm256_store_ps(to, value); }

  static I masked(I v, int8_t mask) { return _mm256_and_si256(v, _mm256_set1_epi8(mask)); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  /// Converts bytes with 128 added to signed ones, and back.
  static I flip_signs(I v) { return _mm256_xor_si256(v, _mm256_set1_epi8(-128)); }
  /// Shifts within 16-bit lanes, to the left or, if negative, to the right; the caller masks bits that come from the
  /// neighbouring byte.
  [[gnu::always_inline]] static I shift(I v, int bits) {
    return bits >= 0 ? _mm256_slli_epi16(v, bits) : _mm256_srli_epi16(v, -bits);
  }
  template <int kBits>
  static I shift_right(I v) {
    return _mm256_srli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_dwords_right(I v) {
    return _mm256_srli_epi32(v, kBits);
  }
  /// The binary16 numbers in the low 16 bits of the dwords.
  static F low_halves(I v) {
    const I packed = _mm256_packus_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), _mm256_setzero_si256());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8)));
  }
  static I table(const ByteTable& bytes) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes.bytes)));
  }
  /// The table's bytes at the indices, each below 16.
  static I look_up(I table, I indices) { return _mm256_shuffle_epi8(table, indices); }
  /// byte() is byte `i` of each dword, unsigned; signed_byte() is signed.
  static I byte(I dwords, int i) {
    const I order = _mm256_setr_epi32(0x80808000, 0x80808004, 0x80808008, 0x8080800c, 0x80808000, 0x80808004,
                                      0x80808008, 0x8080800c);
    return _mm256_shuffle_epi8(dwords, _mm256_add_epi8(order, _mm256_set1_epi32(i)));
  }
  static I signed_byte(I dwords, int i) {
    return _mm256_srai_epi32(_mm256_sll_epi32(dwords, _mm_cvtsi32_si128(24 - 8 * i)), 24);
  }
  /// Signed byte `i` of each dword in both int16 lanes, as operand of vpmaddwd.
  static I factor(I dwords, int i) {
    const I high_bytes =
        _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0, 0x04000400, 0x08000800, 0x0c000c00);
    const I order = _mm256_add_epi8(high_bytes, _mm256_set1_epi8(static_cast<char>(i)));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(dwords, order), 8);
  }
  static I pair(I dwords, int i) { return factor(dwords, i); }
  static I pair_products(I lanes, I pairs) { return _mm256_madd_epi16(lanes, pairs); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }

  static F set(float value) { return _mm256_set1_ps(value); }
  static F multiply(F a, F b) { return _mm256_mul_ps(a, b); }
  static F multiply_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F multiply_subtract(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static I broadcast4(const std::byte* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return _mm256_set1_epi32(value);
  }
  static F broadcast_float(const std::byte* from) { return _mm256_castsi256_ps(broadcast4(from)); }
};

}  // namespace
}  // namespace cairn::kernels::cpu
