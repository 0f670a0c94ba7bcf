/// Sums of the int8 products with 8-bit codes for AVX2, as int16 (see int8_vector.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/avx2/int8_operations.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

struct Int8Pairs : Int8Operations {
  /// Fixes the order of additions: if the compiler regroups them, the sums of a block need more registers than there
  /// are.
  static void keep_order(I& sum) { asm("" : "+x"(sum)); }

  /// Bytes as int16, in pairs two apart: the first and third of each four for i = 0, the second and fourth for i = 1.
  static I pairs(I bytes, int i) { return _mm256_srai_epi16(i == 0 ? _mm256_slli_epi16(bytes, 8) : bytes, 8); }

  /// Stores a block's activations as pairs: of its eight groups of four columns, the first pairs, then the second ones.
  template <Int8Shape kShape>
  static void prepare(const std::byte* row, const Places& at, int64_t count, int32_t* to) {
    for (int64_t b = 0; b < count; ++b, to += 2 * kLanes) {
      const I values = load(row + at.values + 32 * b);
      store(to, pairs(values, 0));
      store(to + kLanes, pairs(values, 1));
    }
  }

  /// Sums with signed 8-bit codes. Products of int16 pairs are added in int32: four columns take two products and two
  /// additions, whereas |code| times the activation with its sign would use the multiplier's port three times. kRow is
  /// the distance of two tokens' pairs in dwords.
  template <int64_t kRow, int T, int R, class Source>
  [[gnu::always_inline]] static void pair_sums(const Source& source, int v, const Places& at, I (*dots)[R]) {
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_setzero_si256();
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        I weights[R];
        for (int r = 0; r < R; ++r) weights[r] = source.pairs(k, i, v + r);
        for (int t = 0; t < T; ++t) {
          const I y = _mm256_set1_epi32(at.prepared[t * kRow + i * kLanes + k]);
          for (int r = 0; r < R; ++r) {
            dots[t][r] = _mm256_add_epi32(dots[t][r], _mm256_madd_epi16(weights[r], y));
            keep_order(dots[t][r]);
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
