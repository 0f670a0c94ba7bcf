/// Vectors of the int8 products for AVX2 with VNNI (AVX-VNNI: consumer processors that lack AVX-512). See
/// matmul_int8_body.h.
#pragma once

#include "kernels/cpu/intrinsics.h"  // comes before the compiler's own, as the dot product may be emulated

#include "kernels/cpu/isa/avx2/int8_operations.h"
#include "kernels/cpu/matmul/dot_sums.h"

namespace cairn::kernels::cpu {
namespace {

struct Int8Vector : Int8Operations {
  // With two vectors of rows: 8 integer sums, two weights and an activation take 11 of 16 registers.
#ifdef CAIRN_EMULATE_AVX512
  static constexpr int kTokens = 2;
#else
  static constexpr int kTokens = 4;
#endif
  /// Tiles of at most this many tokens keep their sums in registers.
  static constexpr int kTokensInRegisters = 2;
  static constexpr bool kInt16Sums = false;
  /// Dwords that are prepared per block: see int8_prepared.h.
  template <class Source, int T>
  static constexpr int kPrepared = kStartsOf<Source::kShape>;
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
  static constexpr int vectors_at_once(Int8Shape /*shape*/) { return 2; }

  static I dot(I sum, I weights, I y) {
#ifdef CAIRN_EMULATE_AVX512
    return simde_mm256_dpbusd_epi32(sum, weights, y);
#else
    return _mm256_dpbusd_avx_epi32(sum, weights, y);
#endif
  }
  template <Int8Shape kShape>
  static void prepare(const std::byte* row, const Places& at, int64_t count, int32_t* to) {
    fill_starts<Int8Vector, kShape>(row, at, count, to);
  }
  static I multiply_integers(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I set_pairs(int16_t value) { return _mm256_set1_epi16(value); }
  static I eighth(I v) { return _mm256_srai_epi32(v, 3); }
  static I broadcast(int32_t value) { return _mm256_set1_epi32(value); }
  /// Loads `count` dwords, followed by zeros.
  static I load_up_to(const void* from, int64_t count) {
    I v = _mm256_setzero_si256();
    std::memcpy(&v, from, static_cast<size_t>(count < kLanes ? count : kLanes) * sizeof(int32_t));
    return v;
  }
  /// Factors as int32, unlike the int16 pairs that AVX2 alone multiplies.
  static I factor(I dwords, int i) { return signed_byte(dwords, i); }

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
