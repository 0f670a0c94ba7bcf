/// Sums of the int8 products for AVX2 (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/int8_operations.h"
#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/int8_type.h"

namespace cairn::cpu {
namespace {

// Without VNNI: unsigned times signed bytes, pairs added to int16 with saturation (vpmaddubsw), which cannot happen:
// codes are below 64, or 16 where there are two planes of them, so a pair reaches 63 * 127 * 2 = 16002. The sums of
// pairs may wrap on the way; Int8Shape says of how many columns the sum of (code - offset) y fits at the end.
struct Int8Vector : Int8Operations {
  static constexpr int kTokens = 4;
  /// Tiles of at most so many keep their sums in registers.
  static constexpr int kTokensInRegisters = 2;
  static constexpr bool kInt16Sums = true;
  /// Whether int8_starts.h is wanted.
  static constexpr bool kStarts = false;
  // 8 integer sums and what the products pass through are what the 16 registers hold: types that need two sums of a
  // block take one vector at a time.
  static constexpr int vectors_at_once(Int8Shape shape) { return shape.whole_fits() ? 2 : 1; }
  /// See kShapeOf (panel_scales.h), and scaled_blocks.h.
  static constexpr bool kFloatFactors = false;
  static constexpr int kScaledTokens = 0;
  /// More tokens than this are many.
  static constexpr int32_t many_above(Int8Type /*type*/) { return kTokens; }
  /// Whether they want the type's codes unpacked first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) {
    return !int8_traits(type).shape.whole_fits() || int8_traits(type).bits == 5;
  }

  /// Fixes the order of additions: regrouped by the compiler, the sums of a block need more registers than there are.
  static void keep_order(I& sum) { asm("" : "+x"(sum)); }

  /// sums[t][r] += group<kPlane>(k, v + r) * y[t] in int16, for k in [kBegin, kEnd). Groups four apart take turns: they
  /// are often nibbles of the same bytes.
  template <int kPlane, int kBegin, int kEnd, int T, int R, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[R]) {
    constexpr int kCount = kEnd - kBegin;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int k = kBegin + (kCount == 8 ? i / 2 + i % 2 * 4 : i);
      I weights[R];
      for (int r = 0; r < R; ++r) weights[r] = source.template group<kPlane>(k, v + r);
      for (int t = 0; t < T; ++t) {
        const I y = broadcast4(rows[t] + values + 4 * k);
        for (int r = 0; r < R; ++r) {
          sums[t][r] = _mm256_add_epi16(sums[t][r], _mm256_maddubs_epi16(weights[r], y));
          keep_order(sums[t][r]);
        }
      }
    }
  }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    constexpr Int8Shape kShape = Source::kShape;
    if constexpr (kShape.whole_fits()) {
      whole_sums<kShape.offset, T, R>(source, v, rows, at, dots);
    } else if constexpr (kShape.half_fits()) {
      sums_of_halves<T, R>(source, v, rows, at, dots);
    } else if constexpr (kShape.factors) {
      quarter_sums<T, R>(source, v, rows, at, dots);
    } else {
      plane_sums<kShape.offset, T, R>(source, v, rows, at, dots);
    }
  }

  template <int kOffset, int T, int R, class Source>
  [[gnu::always_inline]] static void whole_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    static_assert(kOffset == 0 || kOffset == 8 || kOffset == 16);
    for (int t = 0; t < T; ++t) {
      I offset = kOffset == 0 ? _mm256_setzero_si256() : broadcast4(rows[t] + at.offsets8);
      if constexpr (kOffset == 16) offset = _mm256_slli_epi16(offset, 1);
      for (int r = 0; r < R; ++r) dots[t][r] = offset;
    }
    add_products<0, 0, 8, T, R>(source, v, rows, at.values, dots);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_madd_epi16(dots[t][r], _mm256_set1_epi16(1));
    }
  }

  /// Where the sums of 16 columns start.
  template <int kOffset>
  static I half_offset(const std::byte* offsets32) {
    static_assert(kOffset == 0 || kOffset == 4 || kOffset == 32);
    if constexpr (kOffset == 0) return _mm256_setzero_si256();
    return kOffset == 32 ? broadcast4(offsets32) : _mm256_srai_epi16(broadcast4(offsets32), 3);
  }

  /// Of the 16 columns of a half, times their factor if there are some.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void half_sums(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, I (*sums)[R]) {
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        sums[t][r] = half_offset<Source::kShape.offset>(rows[t] + at.offsets32 + 4 * kHalf);
      }
    }
    add_products<0, 4 * kHalf, 4 * kHalf + 4, T, R>(source, v, rows, at.values, sums);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        I factor = _mm256_set1_epi16(1);
        if constexpr (Source::kShape.factors) factor = source.factor(kHalf, v + r);
        sums[t][r] = _mm256_madd_epi16(sums[t][r], factor);
      }
    }
  }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void sums_of_halves(const Source& source, int v, const std::byte* const* rows,
                                                    const Places& at, I (*dots)[R]) {
    I sums[T][R];
    half_sums<0, T, R>(source, v, rows, at, dots);
    half_sums<1, T, R>(source, v, rows, at, sums);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_add_epi32(dots[t][r], sums[t][r]);
    }
  }

  /// low += group<0>(k, v + r) * y[t] and high += group<1>(k, v + r) * y[t].
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void add_plane_products(const Source& source, int v, const std::byte* const* rows,
                                                        int64_t values, I (*low)[R], I (*high)[R]) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2 + i % 2 * 4;
      for (int r = 0; r < R; ++r) {
        const I low_weights = source.template group<0>(k, v + r), high_weights = source.template group<1>(k, v + r);
        for (int t = 0; t < T; ++t) {
          const I y = broadcast4(rows[t] + values + 4 * k);
          low[t][r] = _mm256_add_epi16(low[t][r], _mm256_maddubs_epi16(low_weights, y));
          keep_order(low[t][r]);
          high[t][r] = _mm256_add_epi16(high[t][r], _mm256_maddubs_epi16(high_weights, y));
          keep_order(high[t][r]);
        }
      }
    }
  }

  /// Codes are 16 times plane 1 plus plane 0: 16 * sum((high - offset / 16) y) + sum(low y).
  template <int kOffset, int T, int R, class Source>
  [[gnu::always_inline]] static void plane_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    static_assert(kOffset == 16 * 8);
    I high[T][R];
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        high[t][r] = broadcast4(rows[t] + at.offsets8);
        dots[t][r] = _mm256_setzero_si256();
      }
    }
    add_plane_products<T, R>(source, v, rows, at.values, dots, high);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        dots[t][r] = _mm256_add_epi32(_mm256_madd_epi16(dots[t][r], _mm256_set1_epi16(1)),
                                      _mm256_madd_epi16(high[t][r], _mm256_set1_epi16(16)));
      }
    }
  }

  /// Sums of 8 columns, times the factors. Signed codes: |code| times the activation with the code's sign.
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void quarter_sums(const Source& source, int v, const std::byte* const* rows,
                                                  const Places& at, I (*dots)[R]) {
    static_assert(Source::kShape.quarter_fits() && R == 1);
    for (int t = 0; t < T; ++t) dots[t][0] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int k = 0; k < 8; k += 2) {
      const I codes[2] = {source.template group<0>(k, v), source.template group<0>(k + 1, v)};
      const I magnitudes[2] = {_mm256_abs_epi8(codes[0]), _mm256_abs_epi8(codes[1])};
      const I factor = source.factor(k / 4, v);
      for (int t = 0; t < T; ++t) {
        I products[2];
        for (int i = 0; i < 2; ++i) {
          const I y = _mm256_sign_epi8(broadcast4(rows[t] + at.values + 4 * (k + i)), codes[i]);
          products[i] = _mm256_maddubs_epi16(magnitudes[i], y);
        }
        const I sum = _mm256_add_epi16(products[0], products[1]);
        dots[t][0] = _mm256_add_epi32(dots[t][0], _mm256_madd_epi16(sum, factor));
        keep_order(dots[t][0]);
      }
    }
  }
};

}  // namespace
}  // namespace cairn::cpu
