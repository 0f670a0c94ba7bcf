/// Vectors of the int8 products for AVX-512 with VNNI (see matmul_int8_body.h).
#pragma once

#include "kernels/cpu/isa/avx512/vector.h"  // the intrinsics, or their emulation

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/dot_sums.h"
#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

// Products with VNNI: four products of unsigned weights and signed activations are added to int32 in one instruction
// (vpdpbusd).
struct Int8Vector {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  // Tokens of a tile: their integer and float sums and the codes of a block take 24 of 32 registers.
  static constexpr int kTokens = 8;
  /// Tiles of at most this many tokens keep their sums in registers, so that a block's conversions run beside the next
  /// one's products.
  static constexpr int kTokensInRegisters = kTokens;
  static constexpr bool kInt16Sums = false;
  /// Dwords that are prepared per block: see int8_prepared.h.
  template <class Source, int T>
  static constexpr int kPrepared = kStartsOf<Source::kShape>;
  /// Whether outputs of many tokens are stored non-temporally.
  static constexpr bool kStoresNonTemporally = true;
  /// Whether a single token reads two panels side by side.
  static constexpr bool kPairsForOne = false;
  static constexpr bool kFloatFactors = true;
  /// More tokens than this use the kernels for many tokens.
  static constexpr int32_t kManyAbove = 2 * kTokens;
  /// Whether products of many tokens unpack the type's codes first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) { return type == Int8Type::kQ2_K; }
  static constexpr int vectors_at_once(Int8Shape /*shape*/) { return 1; }

  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static F load_floats(const float* from) { return _mm512_loadu_ps(from); }
  static F load_halves(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  /// Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const std::byte* from) {
    const I wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  static void store(void* to, I value) { _mm512_storeu_si512(to, value); }
  static void store(float* to, F value) { _mm512_storeu_ps(to, value); }
  /// Non-temporal store to a whole cache line; other threads see it once fence_non_temporal() has returned.
  static void stream(float* to, F value) { _mm512_stream_ps(to, value); }
  static void fence_non_temporal() { _mm_sfence(); }

  static I masked(I v, int8_t mask) { return _mm512_and_si512(v, _mm512_set1_epi8(mask)); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  /// Shifts within 16-bit lanes, to the left or, if negative, to the right; the caller masks bits that come from the
  /// neighbouring byte.
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
  /// The binary16 numbers in the low 16 bits of the dwords.
  static F low_halves(I v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  static I table(const ByteTable& bytes) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes.bytes)));
  }
  /// The table's bytes at the indices, each below 16.
  static I look_up(I table, I indices) { return _mm512_shuffle_epi8(table, indices); }
  /// byte() is byte `i` of each dword, unsigned; signed_byte() is signed.
  static I byte(I dwords, int i) {
    return _mm512_and_si512(_mm512_srl_epi32(dwords, _mm_cvtsi32_si128(8 * i)), _mm512_set1_epi32(255));
  }
  static I signed_byte(I dwords, int i) {
    return _mm512_srai_epi32(_mm512_sll_epi32(dwords, _mm_cvtsi32_si128(24 - 8 * i)), 24);
  }
  static I factor(I dwords, int i) { return signed_byte(dwords, i); }
  /// Byte `i` of each dword in both int16 lanes, as operand of vpmaddwd.
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

  // Operations of ScaledProducts (scaled_blocks.h).
  static I broadcast(int32_t value) { return _mm512_set1_epi32(value); }
  static constexpr int kScaledTokens = 6;
  /// Loads `count` dwords, followed by zeros.
  static I load_up_to(const void* from, int64_t count) {
    if (count >= kLanes) return load(from);
    return _mm512_castps_si512(_mm512_maskz_loadu_ps((1U << (count > 0 ? count : 0)) - 1, from));
  }

  static I dot(I sum, I weights, I y) { return _mm512_dpbusd_epi32(sum, weights, y); }
  /// dot with four columns of y broadcast, as one instruction: the compiler would load them with a separate one.
  static I dot_broadcast(I sum, I weights, const std::byte* y) {
#ifdef CAIRN_EMULATE_AVX512
    return dot(sum, weights, broadcast4(y));
#else
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(*reinterpret_cast<const int32_t*>(y)));
    return sum;
#endif
  }
  template <Int8Shape kShape>
  static void prepare(const std::byte* row, const Places& at, int64_t count, int32_t* to) {
    fill_starts<Int8Vector, kShape>(row, at, count, to);
  }
  static I multiply_integers(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I set_pairs(int16_t value) { return _mm512_set1_epi16(value); }
  static I eighth(I v) { return _mm512_srai_epi32(v, 3); }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    DotSums<Int8Vector>::block_sums<T, R>(source, v, rows, at, dots);
  }
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void half_sums(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, I (*sums)[R]) {
    DotSums<Int8Vector>::half_sums<kHalf, T, R>(source, v, rows, at, sums);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
