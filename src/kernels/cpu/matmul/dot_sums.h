/// Integer sums of the int8 products where an instruction adds four products of unsigned weights and signed activations
/// to int32 lanes (VNNI): the block_sums of an Int8Vector (matmul_int8_body.h), written once for two register widths.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

/// V has the small operations, and dot(sum, weights, y), multiply_integers and broadcast; and dot_broadcast if one
/// vector is multiplied at a time.
template <class V>
struct DotSums {
  using I = typename V::I;

  /// sums[t][r] += group(k, v + r) * y[t], for k in [kBegin, kEnd).
  template <int kBegin, int kEnd, int T, int R, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[R]) {
    if constexpr (R == 1) return add_broadcast<kBegin, kEnd, T>(source, v, rows, values, sums);
#pragma GCC unroll 8
    for (int k = kBegin; k < kEnd; ++k) {
      I weights[R];
      for (int r = 0; r < R; ++r) weights[r] = source.group(k, v + r);
      for (int t = 0; t < T; ++t) {
        const I y = V::broadcast4(rows[t] + values + 4 * k);
        for (int r = 0; r < R; ++r) sums[t][r] = V::dot(sums[t][r], weights[r], y);
      }
    }
  }

  /// Adds the products of one vector of rows, with a product that broadcasts the activations itself.
  template <int kBegin, int kEnd, int T, class Source>
  [[gnu::always_inline]] static void add_broadcast(const Source& source, int v, const std::byte* const* rows,
                                                   int64_t values, I (*sums)[1]) {
    I weights[8];
    const auto add = [&](int k, int t) {
      sums[t][0] = V::dot_broadcast(sums[t][0], weights[k], rows[t] + values + 4 * k);
    };
    if constexpr (Source::kGroupsAtOnce && T > 1) {
#pragma GCC unroll 8
      for (int k = kBegin; k < kEnd; ++k) weights[k] = source.group(k, v);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
        for (int k = kBegin; k < kEnd; ++k) add(k, t);
      }
    } else {
#pragma GCC unroll 8
      for (int k = kBegin; k < kEnd; ++k) {
        weights[k] = source.group(k, v);
        // With one token memory is the bound, and the compiler would mix up the order of the lines (Zen 4: Q8_0 29
        // instead of 32 GB/s).
        if constexpr (T == 1) asm volatile("" : : : "memory");
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) add(k, t);
      }
    }
  }

  /// The initial value of the sums of a block, or of a half.
  template <Int8Shape kShape>
  static I start(const Places& at, int t, int half) {
    if constexpr (kShape.offset == 0) return V::broadcast(0);
    return V::broadcast(at.prepared[t * kPreparedRow<kStartsOf<kShape>> + half]);
  }

  template <int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    constexpr Int8Shape kShape = Source::kShape;
    if constexpr (kShape.factors) {
      // |sum of (code - offset) y over 16 columns| * 128 is below 2^23.
      I sums[T][R];
      half_sums<0, T, R>(source, v, rows, at, sums);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = V::multiply_integers(sums[t][r], source.factor(0, v + r));
      }
      half_sums<1, T, R>(source, v, rows, at, sums);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) {
          dots[t][r] = V::add(dots[t][r], V::multiply_integers(sums[t][r], source.factor(1, v + r)));
        }
      }
    } else {
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = start<kShape>(at, t, 0);
      }
      add_products<0, 8, T, R>(source, v, rows, at.values, dots);
    }
  }

  /// Sums of the 16 columns of a half block.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void half_sums(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, I (*sums)[R]) {
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) sums[t][r] = start<Source::kShape>(at, t, kHalf);
    }
    add_products<4 * kHalf, 4 * kHalf + 4, T, R>(source, v, rows, at.values, sums);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
