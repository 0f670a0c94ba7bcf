/// Products of one block of 32 columns, written once over an ISA's Int8Vector (see matmul_int8_body.h).
#pragma once

#include <cstddef>

#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/matmul/matmul_panel.h"

namespace cairn::kernels::cpu {
namespace {

/// Sums of tokens in memory, kRow floats apart; for many tokens, so that the registers are free for the integer sums.
template <class V, int kRow>
struct SumsInMemory {
  float* sums;

  typename V::F get(int t, int v) const { return V::load_floats(sums + t * kRow + v * V::kLanes); }
  void set(int t, int v, typename V::F sum) const { V::store(sums + t * kRow + v * V::kLanes, sum); }
};

/// Sums of T tokens in registers, so that no block waits to read them back.
template <class V, int T, int kVectors>
struct SumsInRegisters {
  typename V::F sums[T][kVectors];

  typename V::F get(int t, int v) const { return sums[t][v]; }
  void set(int t, int v, typename V::F sum) { sums[t][v] = sum; }
};

template <class V>
struct BlockProducts {
  using I = typename V::I;
  using F = typename V::F;

  /// Continues the sums of T tokens over the source's current block, for vectors [v, v + R).
  template <int T, int R, class Source, class Sums>
  [[gnu::always_inline]] static void add_block(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums& sums) {
    if constexpr (Source::kShape.halves) {
      add_half<0, T, R>(source, v, rows, at, sums);
      add_half<1, T, R>(source, v, rows, at, sums);
    } else {
      add_whole<T, R>(source, v, rows, at, sums);
    }
  }

  /// Continues the sums of T tokens over `count` blocks of a source that starts at a section, the first at `at` of the
  /// rows.
  template <int T, class Source, class Totals>
  [[gnu::always_inline]] static void add_blocks(Source& source, int64_t count, const std::byte* const* rows, Places& at,
                                                Totals& totals) {
    constexpr int kAtOnce =
        V::vectors_at_once(Source::kShape) < Source::kVectors ? V::vectors_at_once(Source::kShape) : Source::kVectors;
    for_each_block<T == 1 && Source::kFew && Source::kVectors == 1>(
        source, count, [&](int64_t) __attribute__((always_inline)) {
          source.prefetch();
#pragma GCC unroll 4
          for (int v = 0; v < Source::kVectors; v += kAtOnce) add_block<T, kAtOnce>(source, v, rows, at, totals);
          at.advance();
          Prepared<V, Source, T>::advance(at);
        });
  }

 private:
  /// A compiler barrier that keeps later loads after it: while the sums of more than four tokens are in registers, few
  /// are left for those loads.
  [[gnu::always_inline]] static void sums_end() { asm volatile("" : : : "memory"); }

  /// Adds a block with a single scale.
  template <int T, int R, class Source, class Sums>
  [[gnu::always_inline]] static void add_whole(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums& sums) {
    constexpr auto kMinima = Source::kShape.minima;
    I dots[T][R];
    F scales[R];
    V::template block_sums<T, R>(source, v, rows, at, dots);
    if constexpr (T > 4 && T <= V::kTokensInRegisters) sums_end();
    for (int r = 0; r < R; ++r) scales[r] = source.scale(v + r);
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      for (int r = 0; r < R; ++r) {
        F sum = V::multiply_add(V::to_float(dots[t][r]), V::multiply(scales[r], scale), sums.get(t, v + r));
        if constexpr (kMinima == Int8Shape::kFloat) {
          sum = V::multiply_subtract(source.minimum(v + r), V::broadcast_float(rows[t] + at.scaled_sums), sum);
        }
        if constexpr (kMinima == Int8Shape::kInteger) {
          const I minima =
              V::add(V::pair_products(V::broadcast4(rows[t] + at.offsets32), source.minimum_pair(0, v + r)),
                     V::pair_products(V::broadcast4(rows[t] + at.offsets32 + 4), source.minimum_pair(1, v + r)));
          sum = V::multiply_subtract(V::to_float(minima), V::multiply(source.minimum(v + r), scale), sum);
        }
        sums.set(t, v + r, sum);
      }
    }
  }

  /// Adds half a block, which has a scale of its own.
  template <int kHalf, int T, int R, class Source, class Sums>
  [[gnu::always_inline]] static void add_half(const Source& source, int v, const std::byte* const* rows,
                                              const Places& at, Sums& sums) {
    I dots[T][R];
    V::template half_sums<kHalf, T, R>(source, v, rows, at, dots);
    if constexpr (T > 4 && T <= V::kTokensInRegisters) sums_end();
    F scales[R];
    for (int r = 0; r < R; ++r) scales[r] = source.half_scale(kHalf, v + r);
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      for (int r = 0; r < R; ++r) {
        sums.set(t, v + r, V::multiply_add(V::to_float(dots[t][r]), V::multiply(scales[r], scale), sums.get(t, v + r)));
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
