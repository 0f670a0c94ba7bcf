/// Sums of the int8 products for AVX2 (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/avx2/int8_pairs.h"
#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/matmul/matmul_panel.h"

namespace cairn::kernels::cpu {
namespace {

// Products without VNNI: unsigned times signed bytes, pairs added to int16 with saturation (vpmaddubsw), which never
// occurs: codes are below 64, so a pair reaches 63 * 127 * 2 = 16002, or they are magnitudes of at most 128, so a pair
// reaches 32512. The sums of pairs may wrap on the way; Int8Shape says of how many columns the sum of (code - offset) y
// fits at the end.
struct Int8Vector : Int8Pairs {
  static constexpr int kTokens = 4;
  /// Tiles of at most this many tokens keep their sums in registers. The 8 sums of a block take most of the 16
  /// registers, so the compiler puts the tokens' own sums on the stack.
  static constexpr int kTokensInRegisters = kTokens;
  static constexpr bool kInt16Sums = true;
  /// Dwords that are prepared per block (int8_prepared.h): activations as pairs of int16. A single token is bound by
  /// memory anyway, so nothing is prepared for it.
  template <class Source, int T>
  static constexpr int kPrepared = (T > 1 || Source::kUnpacked) && kSumsPairs<Int8Vector, Source::kShape> ? 16 : 0;
  /// Whether outputs of many tokens are stored non-temporally: measured on Zen 3, prompts take twice as long then.
  static constexpr bool kStoresNonTemporally = false;
  /// Whether a single token reads two panels side by side: one stream through memory is slower than two (Zen 3).
  static constexpr bool kPairsForOne = true;
  static constexpr int vectors_at_once(Int8Shape /*shape*/) { return 2; }
  /// These turn off the variants of kShapeOf (panel_scales.h) and scaled_blocks.h.
  static constexpr bool kFloatFactors = false;
  static constexpr int kScaledTokens = 0;
  /// More tokens than this use the kernels for many tokens: for fewer, unpacking takes more time than it saves (Zen 3).
  static constexpr int32_t kManyAbove = 4 * kTokens;
  /// Whether products of many tokens unpack the type's codes first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) {
    return !int8_traits(type).shape.whole_fits() || int8_traits(type).bits == 5 || type == Int8Type::kMXFP4;
  }

  /// sums[t][r] += group(k, v + r) * y[t] in int16, for k in [kBegin, kEnd). Groups four apart alternate, as they are
  /// often nibbles of the same bytes.
  template <int kBegin, int kEnd, int T, int R, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[R]) {
    constexpr int kCount = kEnd - kBegin;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int k = kBegin + (kCount == 8 ? i / 2 + i % 2 * 4 : i);
      I weights[R];
      for (int r = 0; r < R; ++r) weights[r] = source.group(k, v + r);
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
    } else if constexpr (kPrepared<Source, T> > 0) {
      pair_sums<kPreparedRow<kPrepared<Source, T>>, T, R>(source, v, at, dots);
    } else {
      signed_sums<T, R>(source, v, rows, at, dots);
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
    add_products<0, 8, T, R>(source, v, rows, at.values, dots);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_madd_epi16(dots[t][r], _mm256_set1_epi16(1));
    }
  }

  /// The initial value of the sums of 16 columns.
  template <int kOffset>
  static I half_offset(const std::byte* offsets32) {
    static_assert(kOffset == 0 || kOffset == 4 || kOffset == 32);
    if constexpr (kOffset == 0) return _mm256_setzero_si256();
    return kOffset == 32 ? broadcast4(offsets32) : _mm256_srai_epi16(broadcast4(offsets32), 3);
  }

  /// Sums of the 16 columns of a half block, times their factor if the type has factors.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void half_sums(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, I (*sums)[R]) {
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        sums[t][r] = half_offset<Source::kShape.offset>(rows[t] + at.offsets32 + 4 * kHalf);
      }
    }
    add_products<4 * kHalf, 4 * kHalf + 4, T, R>(source, v, rows, at.values, sums);
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

  /// Sums with signed codes: |code| times the activation with the code's sign. Each sum is over 8 columns, or over 4
  /// where 8 do not fit, times their factor if the type has factors.
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void signed_sums(const Source& source, int v, const std::byte* const* rows,
                                                 const Places& at, I (*dots)[R]) {
    constexpr Int8Shape kShape = Source::kShape;
    constexpr int kGroups = kShape.quarter_fits() ? 2 : 1;
    static_assert(kShape.largest * 127 * 2 * kGroups <= 32767);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_setzero_si256();
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; k += kGroups) {
      I codes[kGroups][R], magnitudes[kGroups][R], factors[R];
      for (int r = 0; r < R; ++r) {
        for (int i = 0; i < kGroups; ++i) {
          codes[i][r] = source.group(k + i, v + r);
          magnitudes[i][r] = _mm256_abs_epi8(codes[i][r]);
        }
        factors[r] = _mm256_set1_epi16(1);
        if constexpr (kShape.factors) factors[r] = source.factor(k / 4, v + r);
      }
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) {
          const auto products = [&](int i) {
            const I y = broadcast4(rows[t] + at.values + 4 * (k + i));
            return _mm256_maddubs_epi16(magnitudes[i][r], _mm256_sign_epi8(y, codes[i][r]));
          };
          I sum = products(0);
          if constexpr (kGroups == 2) sum = _mm256_add_epi16(sum, products(1));
          dots[t][r] = _mm256_add_epi32(dots[t][r], _mm256_madd_epi16(sum, factors[r]));
          keep_order(dots[t][r]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
