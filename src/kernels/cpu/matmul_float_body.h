/// Products with float32 activations, written once over an ISA's vectors. A pair's sum runs in V::kLanes lanes, lane l
/// over columns l, l + kLanes, ...; the lanes are added at the end in a fixed tree.
///
/// V::kRows weight rows at a time meet all tokens of a group, V::kTokens at a time. F32, F16 and BF16 rows are read in
/// place: to convert a number in a register again costs less than to read it from memory as a float. The other types
/// are decoded by quant, a chunk at a time.
///
/// V is the ISA's Vector with `load(const Bf16*)`, kRows and kTokens in addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul.h"

namespace cairn::cpu {
namespace {

struct Bf16 {
  uint16_t bits;
};

template <class V>
struct FloatProducts {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;
  // One token waits for memory, which is read best from few places; with fewer sums than these it waits for them.
  static constexpr int kRowsOfOneToken = kLanes >= 8 ? 3 : 8;
  // Threads' shares are multiples of 32 rows, of which six leave two.
  static constexpr int kRowsOfRest = V::kRows == 6 ? 3 : V::kRows;
  // A multiple of every type's block: 6 rows x 1024 x 2 bytes are 12 KiB, a quarter of the L1 cache.
  static constexpr int64_t kChunkCols = 1024;
  // Bounds the accumulators: 64 x 6 rows x 64 bytes are 24 KiB.
  static constexpr int32_t kGroupTokens = 64;

  /// Asks for `bytes` from `from` on. They are read rows at a time, but come fastest in the order of memory.
  static void prefetch(uintptr_t from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(from + i));
  }

  /// Continues the sums [T][R][kLanes] of R rows and T tokens over n columns, a multiple of kLanes. As many bytes from
  /// `next` on are asked for: the processor's own prefetchers lose sight of several rows.
  template <int R, int T, class W>
  static void tile(const W* const* w, const float* const* x, int64_t n, uintptr_t next, float* sums) {
    F acc[T][R];
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) acc[t][r] = V::load(sums + (t * R + r) * kLanes);
    }
    for (int64_t i = 0; i < n; i += kLanes) {
      F xs[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) xs[t] = V::load(x[t] + i);
      prefetch(next + R * i * sizeof(W), R * kLanes * sizeof(W));
      // Asked for, because g++ 12 else stores the sums of one token in every round.
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F ws = V::load(w[r] + i);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) acc[t][r] = V::fma(ws, xs[t], acc[t][r]);
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) V::store(sums + (t * R + r) * kLanes, acc[t][r]);
    }
  }

  template <int R, int T, class W>
  static void tile_of(int32_t count, const W* const* w, const float* const* x, int64_t n, uintptr_t next, float* sums) {
    if constexpr (T > 1) {
      if (count < T) return tile_of<R, T - 1>(count, w, x, n, next, sums);
    }
    tile<R, T>(w, x, n, next, sums);
  }

  /// The same for columns [begin, begin + n) of any number of tokens, and rows that start at column `begin`.
  template <int R, class W>
  static void tiles(const W* const* w, const std::byte* const* inputs, int32_t tokens, int64_t begin, int64_t n,
                    uintptr_t next, float* sums) {
    for (int32_t t = 0; t < tokens; t += V::kTokens) {
      const int32_t count = tokens - t < V::kTokens ? tokens - t : V::kTokens;
      const float* x[V::kTokens];
      for (int32_t i = 0; i < count; ++i) x[i] = reinterpret_cast<const float*>(inputs[t + i]) + begin;
      // Once is enough: later tokens ask for what they read.
      const uintptr_t asked = t == 0 ? next : reinterpret_cast<uintptr_t>(w[0]);
      tile_of<R, V::kTokens>(count, w, x, n, asked, sums + int64_t{t} * R * kLanes);
    }
  }

  /// Where the rows behind these begin.
  template <int R>
  static uintptr_t next_rows(const std::byte* const* rows) {
    return reinterpret_cast<uintptr_t>(rows[0]) + static_cast<uintptr_t>(R * (rows[1] - rows[0]));
  }

  template <class W, int R>
  static void tiles_in_place(const std::byte* const* rows, const std::byte* const* inputs, int32_t tokens,
                             int64_t begin, int64_t n, float* sums) {
    const W* w[R];
    for (int r = 0; r < R; ++r) w[r] = reinterpret_cast<const W*>(rows[r]) + begin;
    tiles<R>(w, inputs, tokens, begin, n, next_rows<R>(rows) + R * begin * sizeof(W), sums);
  }

  template <int R>
  static void tiles_decoded(TensorType type, const std::byte* const* rows, const std::byte* const* inputs,
                            int32_t tokens, int64_t begin, int64_t n, float* sums) {
    alignas(64) float decoded[R][kChunkCols];
    const float* w[R];
    prefetch(next_rows<R>(rows) + static_cast<uintptr_t>(R * weight_row_bytes(type, begin)),
             R * static_cast<size_t>(weight_row_bytes(type, n)));
    for (int r = 0; r < R; ++r) {
      decode_weights(type, rows[r] + weight_row_bytes(type, begin), n, decoded[r]);
      w[r] = decoded[r];
    }
    tiles<R>(w, inputs, tokens, begin, n, reinterpret_cast<uintptr_t>(decoded), sums);
  }

  /// The last columns, fewer than kLanes, completed with zeros.
  template <int R>
  static void tail(TensorType type, const std::byte* const* rows, const std::byte* const* inputs, int32_t tokens,
                   int64_t begin, int64_t n, float* sums) {
    alignas(64) float w_tail[R][kLanes] = {};
    const float* w[R];
    for (int r = 0; r < R; ++r) {
      decode_weights(type, rows[r] + weight_row_bytes(type, begin), n, w_tail[r]);
      w[r] = w_tail[r];
    }
    for (int32_t t = 0; t < tokens; ++t) {
      alignas(64) float x_tail[kLanes] = {};
      std::memcpy(x_tail, reinterpret_cast<const float*>(inputs[t]) + begin, static_cast<size_t>(n) * sizeof(float));
      const float* x = x_tail;
      tile<R, 1>(w, &x, kLanes, reinterpret_cast<uintptr_t>(w_tail), sums + int64_t{t} * R * kLanes);
    }
  }

  template <int R>
  static void multiply_group(TensorType type, const std::byte* const* rows, int64_t cols,
                             const std::byte* const* inputs, int32_t tokens, float* sums) {
    const int64_t whole = cols / kLanes * kLanes;
    for (int64_t begin = 0; begin < whole; begin += kChunkCols) {
      const int64_t n = whole - begin < kChunkCols ? whole - begin : kChunkCols;
      if (type == TensorType::kF32) {
        tiles_in_place<float, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kF16) {
        tiles_in_place<uint16_t, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kBF16) {
        tiles_in_place<Bf16, R>(rows, inputs, tokens, begin, n, sums);
      } else {
        tiles_decoded<R>(type, rows, inputs, tokens, begin, n, sums);
      }
    }
    // Types of larger blocks have no tail: all blocks are multiples of 32.
    if (whole < cols) tail<R>(type, rows, inputs, tokens, whole, cols - whole, sums);
  }

  static float sum_lanes(const float* lanes) {
    float sums[kLanes];
    std::memcpy(sums, lanes, sizeof(sums));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    return sums[0];
  }

  template <int R>
  static void multiply(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    const int64_t stride = weight_row_bytes(type, cols);
    for (int64_t r = row_begin; r < row_end; r += R) {
      // Beyond the end the last row is computed again and thrown away.
      const int64_t rows_here = row_end - r < R ? row_end - r : R;
      const std::byte* rows[R];
      for (int i = 0; i < R; ++i) rows[i] = weights + (r + (i < rows_here ? i : rows_here - 1)) * stride;
      for (int32_t group = 0; group < tokens; group += kGroupTokens) {
        const int32_t n = tokens - group < kGroupTokens ? tokens - group : kGroupTokens;
        alignas(64) float sums[kGroupTokens][R][kLanes];
        std::memset(sums, 0, static_cast<size_t>(n) * sizeof(sums[0]));
        multiply_group<R>(type, rows, cols, inputs + group, n, &sums[0][0][0]);
        for (int32_t t = 0; t < n; ++t) {
          for (int64_t i = 0; i < rows_here; ++i) outputs[group + t][r + i] = sum_lanes(sums[t][i]);
        }
      }
    }
  }

  /// matmul_rows (matmul.h).
  static void matmul(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                     const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    if (tokens == 1) {
      return multiply<kRowsOfOneToken>(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
    }
    const int64_t rest = row_end - (row_end - row_begin) % V::kRows;
    multiply<V::kRows>(type, weights, cols, row_begin, rest, inputs, tokens, outputs);
    multiply<kRowsOfRest>(type, weights, cols, rest, row_end, inputs, tokens, outputs);
  }
};

}  // namespace
}  // namespace cairn::cpu
