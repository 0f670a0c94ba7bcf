/// Tiles of products with activations of float32 or bfloat16 (matmul_float_body.h): as many accumulators as there are
/// registers.
///
/// V is the ISA's Vector with, in addition, kRows and kTokens of a tile; Input, the type of an activation, of which
/// kColumns are multiplied at once; `load(const Input*)`, `load` of weights in place and `multiply_add`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cpu {
namespace {

struct Bf16 {
  uint16_t bits;
};

template <class V>
struct FloatTiles {
  using F = typename V::F;
  using X = typename V::Input;
  static constexpr int kLanes = V::kLanes;
  static constexpr int kColumns = V::kColumns;

  /// Prefetches `bytes` bytes from `from` on. Several rows are read at a time, but memory is fastest in its own order.
  static void prefetch(uintptr_t from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(from + i));
  }

  /// Begins or continues the sums [T][R][kLanes] of R rows and T tokens over n columns, a multiple of kColumns. As many
  /// bytes from `next` on are prefetched, since hardware prefetchers lose track of several rows.
  template <int R, int T, class W>
  static void tile(const W* const* w, const X* const* x, int64_t n, uintptr_t next, bool first, float* sums) {
    F acc[T][R];
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) acc[t][r] = first ? V::set(0) : V::load(sums + (t * R + r) * kLanes);
    }
    for (int64_t i = 0; i < n; i += kColumns) {
      decltype(V::load(x[0])) xs[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) xs[t] = V::load(x[t] + i);
      prefetch(next + R * i * sizeof(W), R * kColumns * sizeof(W));
      // Unrolled by hand, because g++ 12 otherwise stores the sums of one token in every round.
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto ws = V::load(w[r] + i);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) acc[t][r] = V::multiply_add(ws, xs[t], acc[t][r]);
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) V::store(sums + (t * R + r) * kLanes, acc[t][r]);
    }
  }

  template <int R, int T, class W>
  static void tile_of(int32_t count, const W* const* w, const X* const* x, int64_t n, uintptr_t next, bool first,
                      float* sums) {
    if constexpr (T > 1) {
      if (count < T) return tile_of<R, T - 1>(count, w, x, n, next, first, sums);
    }
    tile<R, T>(w, x, n, next, first, sums);
  }

  /// Begins or continues the sums of any number of tokens over columns [begin, begin + n), of rows that start at column
  /// `begin`.
  template <int R, class W>
  static void tiles(const W* const* w, const std::byte* const* inputs, int32_t tokens, int64_t begin, int64_t n,
                    uintptr_t next, float* sums) {
    for (int32_t t = 0; t < tokens; t += V::kTokens) {
      const int32_t count = tokens - t < V::kTokens ? tokens - t : V::kTokens;
      const X* x[V::kTokens];
      for (int32_t i = 0; i < count; ++i) x[i] = reinterpret_cast<const X*>(inputs[t + i]) + begin;
      // One prefetch is enough: for later tokens the address is that of the rows being read.
      const uintptr_t asked = t == 0 ? next : reinterpret_cast<uintptr_t>(w[0]);
      tile_of<R, V::kTokens>(count, w, x, n, asked, begin == 0, sums + int64_t{t} * R * kLanes);
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
