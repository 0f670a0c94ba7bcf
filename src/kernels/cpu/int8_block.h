/// Products of one block of 32 columns, written once over an ISA's Int8Vector (see matmul_int8_body.h).
#pragma once

#include <cstddef>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/int8_type.h"

namespace cairn::cpu {
namespace {

/// A token's sums are of kRows rows.
template <class V, int kRows>
struct BlockProducts {
  using I = typename V::I;
  using F = typename V::F;
  using Sums = float[kRows];

  /// Continues the sums of T tokens over the source's current block, for vectors [v, v + R).
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void add_block(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums* sums) {
    if constexpr (Source::kShape.halves) {
      add_half<0, T, R>(source, v, rows, at, sums);
      add_half<1, T, R>(source, v, rows, at, sums);
    } else {
      add_whole<T, R>(source, v, rows, at, sums);
    }
  }

 private:
  /// A block with one scale.
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void add_whole(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums* sums) {
    constexpr auto kMinima = Source::kShape.minima;
    I dots[T][R];
    F scales[R];
    V::template block_sums<T, R>(source, v, rows, at, dots);
    if constexpr (V::kSumsFirst && T * R >= 8) asm volatile("" : : : "memory");
    for (int r = 0; r < R; ++r) scales[r] = source.scale(v + r);
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      for (int r = 0; r < R; ++r) {
        float* place = sums[t] + (v + r) * V::kLanes;
        F sum = V::multiply_add(V::to_float(dots[t][r]), V::multiply(scales[r], scale), V::load_floats(place));
        if constexpr (kMinima == Int8Shape::kFloat) {
          sum = V::multiply_subtract(source.minimum(v + r), V::broadcast_float(rows[t] + at.scaled_sums), sum);
        }
        if constexpr (kMinima == Int8Shape::kInteger) {
          const I minima =
              V::add(V::pair_products(V::broadcast4(rows[t] + at.offsets32), source.minimum_pair(0, v + r)),
                     V::pair_products(V::broadcast4(rows[t] + at.offsets32 + 4), source.minimum_pair(1, v + r)));
          sum = V::multiply_subtract(V::to_float(minima), V::multiply(source.minimum(v + r), scale), sum);
        }
        V::store(place, sum);
      }
    }
  }

  /// Half a block whose scale is its own.
  template <int kHalf, int T, int R, class Source>
  [[gnu::always_inline]] static void add_half(const Source& source, int v, const std::byte* const* rows,
                                              const Places& at, Sums* sums) {
    I dots[T][R];
    V::template half_sums<kHalf, T, R>(source, v, rows, at, dots);
    if constexpr (V::kSumsFirst && T * R >= 8) asm volatile("" : : : "memory");
    F scales[R];
    for (int r = 0; r < R; ++r) scales[r] = source.half_scale(kHalf, v + r);
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      for (int r = 0; r < R; ++r) {
        float* place = sums[t] + (v + r) * V::kLanes;
        V::store(place, V::multiply_add(V::to_float(dots[t][r]), V::multiply(scales[r], scale), V::load_floats(place)));
      }
    }
  }
};

}  // namespace
}  // namespace cairn::cpu
