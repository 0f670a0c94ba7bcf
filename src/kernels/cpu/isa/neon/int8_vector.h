/// Vectors of the int8 products for NEON with the dot products of Armv8.2 (see matmul_int8_body.h).
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

// Four products of signed bytes are added to int32 in one instruction (sdot). Codes below 128 are used as they are; in
// codes raised by 128 the highest bit is flipped, which subtracts the 128.
struct Int8Vector {
  using I = int32x4_t;
  using F = float32x4_t;
  static constexpr int kLanes = 4;
  // Tokens of a tile: 4 tokens x 4 vectors of integer sums, 4 vectors of activations, and the weights being loaded fit
  // into 32 registers.
  static constexpr int kTokens = 4;
  /// Tiles of at most this many tokens keep their sums in registers.
  static constexpr int kTokensInRegisters = 2;
  static constexpr bool kInt16Sums = false;
  /// Dwords that are prepared per block: see int8_prepared.h.
  template <class Source, int T>
  static constexpr int kPrepared = 0;
  /// Whether outputs of many tokens are stored non-temporally.
  static constexpr bool kStoresNonTemporally = false;
  /// Whether a single token reads two panels side by side.
  static constexpr bool kPairsForOne = false;
  /// These turn off the variants of kShapeOf (panel_scales.h) and scaled_blocks.h.
  static constexpr bool kFloatFactors = false;
  static constexpr int kScaledTokens = 0;
  /// More tokens than this use the kernels for many tokens.
  static constexpr int32_t kManyAbove = kTokens;
  /// Whether products of many tokens unpack the type's codes first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) { return int8_traits(type).bits % 4 != 0; }
  /// With factors a block has two sums, so fewer vectors fit.
  static constexpr int vectors_at_once(Int8Shape shape) { return shape.factors ? 2 : 4; }

  // Loads bytes, which may alias any type.
  static I load(const void* from) { return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(from))); }
  static F load_floats(const float* from) { return vld1q_f32(from); }
  static F load_halves(const std::byte* from) { return vcvt_f32_f16(vreinterpret_f16_u8(load_eight(from))); }
  /// Loads bfloat16 numbers, the upper halves of floats.
  static F load_uppers(const std::byte* from) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vreinterpret_u16_u8(load_eight(from))), 16));
  }
  static void store(void* to, I value) { vst1q_u8(static_cast<uint8_t*>(to), vreinterpretq_u8_s32(value)); }
  static void store(float* to, F value) { vst1q_f32(to, value); }

  static I masked(I v, int8_t mask) { return vandq_s32(v, vreinterpretq_s32_s8(vdupq_n_s8(mask))); }
  static I either(I a, I b) { return vorrq_s32(a, b); }
  /// Shifts within 16-bit lanes, to the left or, if negative, to the right; the caller masks bits that come from the
  /// neighbouring byte.
  [[gnu::always_inline]] static I shift(I v, int bits) {
    const uint16x8_t words = vreinterpretq_u16_s32(v);
    return vreinterpretq_s32_u16(bits >= 0 ? words << bits : words >> -bits);
  }
  template <int kBits>
  static I shift_right(I v) {
    return shift(v, -kBits);
  }
  template <int kBits>
  static I shift_dwords_right(I v) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(v), kBits));
  }
  /// The binary16 numbers in the low 16 bits of the dwords.
  static F low_halves(I v) { return vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(v))); }
  static I table(const ByteTable& bytes) { return load(bytes.bytes); }
  /// The table's bytes at the indices, each below 16.
  static I look_up(I table, I indices) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(table), vreinterpretq_u8_s32(indices)));
  }
  /// byte() is byte `i` of each dword, unsigned; signed_byte() is signed.
  static I byte(I dwords, int i) { return (dwords >> 8 * i) & 255; }
  static I signed_byte(I dwords, int i) { return (dwords << (24 - 8 * i)) >> 24; }
  static I factor(I dwords, int i) { return signed_byte(dwords, i); }
  /// Byte `i` of each dword in both int16 lanes, as operand of pair_products.
  static I pair(I dwords, int i) { return byte(dwords, i) | byte(dwords, i) << 16; }
  /// Products of int16 lanes; the two of each dword are added.
  static I pair_products(I lanes, I pairs) {
    const int16x8_t a = vreinterpretq_s16_s32(lanes), b = vreinterpretq_s16_s32(pairs);
    return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
  }
  static I add(I a, I b) { return vaddq_s32(a, b); }

  static F set(float value) { return vdupq_n_f32(value); }
  static F multiply(F a, F b) { return vmulq_f32(a, b); }
  static F multiply_add(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F multiply_subtract(F a, F b, F c) { return vfmsq_f32(c, a, b); }
  static F to_float(I v) { return vcvtq_f32_s32(v); }
  static I broadcast4(const std::byte* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return vdupq_n_s32(value);
  }
  static F broadcast_float(const std::byte* from) { return vreinterpretq_f32_s32(broadcast4(from)); }

  /// sums[t][r] += group(kGroup, v + r) * y[t], where y are the activations of the four groups from kGroup / 4 * 4 on.
  template <int kGroup, int T, int R, class Source>
  [[gnu::always_inline]] static void add_group(const Source& source, int v, const int8x16_t (&y)[T], I (*sums)[R]) {
    for (int r = 0; r < R; ++r) {
      int8x16_t weights = vreinterpretq_s8_s32(source.group(kGroup, v + r));
      if constexpr (Source::kShape.offset == 128) weights = veorq_s8(weights, vdupq_n_s8(-128));
      for (int t = 0; t < T; ++t) sums[t][r] = vdotq_laneq_s32(sums[t][r], weights, y[t], kGroup % 4);
    }
  }

  /// Adds the products of the 16 columns of a half block.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void add_half(const Source& source, int v, const std::byte* const* rows, int64_t values,
                                              I (*sums)[R]) {
    int8x16_t y[T];
    for (int t = 0; t < T; ++t) y[t] = vreinterpretq_s8_s32(load(rows[t] + values + 16 * kHalf));
    add_group<4 * kHalf + 0>(source, v, y, sums);
    add_group<4 * kHalf + 1>(source, v, y, sums);
    add_group<4 * kHalf + 2>(source, v, y, sums);
    add_group<4 * kHalf + 3>(source, v, y, sums);
  }

  /// -kOffset times the sum of the columns, or 0 if the codes have no offset here: over all columns, from offsets8, or
  /// over 16, from offsets32 (int8_row.h).
  template <int kOffset>
  static I whole_offset(const std::byte* offsets8) {
    if constexpr (kOffset == 0 || kOffset == 128) return vdupq_n_s32(0);
    return vpaddlq_s16(vreinterpretq_s16_s32(broadcast4(offsets8))) * (kOffset / 8);
  }
  template <int kOffset>
  static I half_offset(const std::byte* offsets32) {
    if constexpr (kOffset == 0) return vdupq_n_s32(0);
    const I sum = vpaddlq_s16(vreinterpretq_s16_s32(broadcast4(offsets32)));
    if constexpr (kOffset < 32) return sum >> 3;
    return sum * (kOffset / 32);
  }

  /// Sums of the 16 columns of a half block.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void half_sums(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, I (*sums)[R]) {
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        sums[t][r] = half_offset<Source::kShape.offset>(rows[t] + at.offsets32 + 4 * kHalf);
      }
    }
    add_half<kHalf, T>(source, v, rows, at.values, sums);
  }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    constexpr Int8Shape kShape = Source::kShape;
    if constexpr (kShape.factors) {
      static_assert(kShape.offset == 0 || kShape.offset == 4 || kShape.offset == 32 || kShape.offset == 64);
      // |sum of (code - offset) y over 16 columns| * 128 is below 2^23.
      I sums[T][R];
      half_sums<0, T, R>(source, v, rows, at, sums);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = vmulq_s32(sums[t][r], source.factor(0, v + r));
      }
      half_sums<1, T, R>(source, v, rows, at, sums);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = vmlaq_s32(dots[t][r], sums[t][r], source.factor(1, v + r));
      }
    } else {
      static_assert(kShape.offset % 8 == 0 && kShape.offset <= 128);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = whole_offset<kShape.offset>(rows[t] + at.offsets8);
      }
      add_half<0, T>(source, v, rows, at.values, dots);
      add_half<1, T>(source, v, rows, at.values, dots);
    }
  }

 private:
  static uint8x8_t load_eight(const std::byte* from) { return vld1_u8(reinterpret_cast<const uint8_t*>(from)); }
};

}  // namespace
}  // namespace cairn::kernels::cpu
