/// Products with float32 activations, written once over an ISA's vectors. A pair's sum runs in V::kLanes lanes, lane l
/// over columns l, l + kLanes, ...; the lanes are added at the end in a fixed tree.
///
/// A few weight rows at a time meet all tokens of a group, V::kTokens at a time. F32 rows are read in place, and F16
/// and BF16 ones where few tokens make it not worth to convert a chunk of them first; the other types are decoded by
/// quant.
///
/// V is the ISA's Vector with `load(const Bf16*)` and kTokens in addition.
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
  static constexpr int kRows = 4;
  // One token has few accumulators: twice the rows hide a multiply-add's latency.
  static constexpr int kRowsOfOneToken = 8;
  // A multiple of every type's block. 4 rows x 512 x 4 bytes are 8 KiB: a quarter of L1, next to the activations.
  static constexpr int64_t kChunkCols = 512;
  // Bounds the accumulators: 48 x 4 rows x 64 bytes are 12 KiB.
  static constexpr int32_t kGroupTokens = 48;

  /// Continues the sums [T][R][kLanes] of R rows and T tokens over n columns, a multiple of kLanes. What lies `ahead`
  /// bytes behind the rows, the next ones, is asked for: the processor's own prefetchers lose sight of several rows.
  template <int R, int T, class W>
  static void tile(const W* const* w, const float* const* x, int64_t n, uintptr_t ahead, float* sums) {
    F acc[T][R];
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) acc[t][r] = V::load(sums + (t * R + r) * kLanes);
    }
    for (int64_t i = 0; i < n; i += kLanes) {
      F xs[T];
      for (int t = 0; t < T; ++t) xs[t] = V::load(x[t] + i);
      for (int r = 0; r < R; ++r) {
        __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(w[r] + i) + ahead));
        const F ws = V::load(w[r] + i);
        for (int t = 0; t < T; ++t) acc[t][r] = V::fma(ws, xs[t], acc[t][r]);
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) V::store(sums + (t * R + r) * kLanes, acc[t][r]);
    }
  }

  template <int R, int T, class W>
  static void tile_of(int32_t count, const W* const* w, const float* const* x, int64_t n, uintptr_t ahead,
                      float* sums) {
    if constexpr (T > 1) {
      if (count < T) return tile_of<R, T - 1>(count, w, x, n, ahead, sums);
    }
    tile<R, T>(w, x, n, ahead, sums);
  }

  /// The same for columns [begin, begin + n) of any number of tokens, and rows that start at column `begin`.
  template <int R, class W>
  static void tiles(const W* const* w, const std::byte* const* inputs, int32_t tokens, int64_t begin, int64_t n,
                    uintptr_t ahead, float* sums) {
    constexpr int kTile = R > kRows ? 1 : V::kTokens;
    for (int32_t t = 0; t < tokens; t += kTile) {
      const int32_t count = tokens - t < kTile ? tokens - t : kTile;
      const float* x[kTile];
      for (int32_t i = 0; i < count; ++i) x[i] = reinterpret_cast<const float*>(inputs[t + i]) + begin;
      tile_of<R, kTile>(count, w, x, n, ahead, sums + int64_t{t} * R * kLanes);
    }
  }

  /// n elements to float32, n a multiple of kLanes for the types with a `load`.
  static void decode(TensorType type, const std::byte* from, int64_t n, float* out) {
    if (type == TensorType::kF16) return convert(reinterpret_cast<const uint16_t*>(from), n, out);
    if (type == TensorType::kBF16) return convert(reinterpret_cast<const Bf16*>(from), n, out);
    decode_weights(type, from, n, out);
  }
  template <class W>
  static void convert(const W* from, int64_t n, float* out) {
    for (int64_t i = 0; i < n; i += kLanes) V::store(out + i, V::load(from + i));
  }

  template <class W, int R>
  static void tiles_in_place(const std::byte* const* rows, const std::byte* const* inputs, int32_t tokens,
                             int64_t begin, int64_t n, float* sums) {
    const W* w[R];
    for (int r = 0; r < R; ++r) w[r] = reinterpret_cast<const W*>(rows[r]) + begin;
    tiles<R>(w, inputs, tokens, begin, n, static_cast<uintptr_t>(R * (rows[1] - rows[0])), sums);
  }

  template <int R>
  static void tiles_decoded(TensorType type, const std::byte* const* rows, const std::byte* const* inputs,
                            int32_t tokens, int64_t begin, int64_t n, float* sums) {
    alignas(64) float decoded[R][kChunkCols];
    const float* w[R];
    for (int r = 0; r < R; ++r) {
      decode(type, rows[r] + weight_row_bytes(type, begin), n, decoded[r]);
      w[r] = decoded[r];
    }
    tiles<R>(w, inputs, tokens, begin, n, 0, sums);
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
      tile<R, 1>(w, &x, kLanes, 0, sums + int64_t{t} * R * kLanes);
    }
  }

  template <int R>
  static void multiply_group(TensorType type, const std::byte* const* rows, int64_t cols,
                             const std::byte* const* inputs, int32_t tokens, float* sums) {
    const int64_t whole = cols / kLanes * kLanes;
    const bool few = tokens <= V::kTokens;
    for (int64_t begin = 0; begin < whole; begin += kChunkCols) {
      const int64_t n = whole - begin < kChunkCols ? whole - begin : kChunkCols;
      if (type == TensorType::kF32) {
        tiles_in_place<float, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kF16 && few) {
        tiles_in_place<uint16_t, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kBF16 && few) {
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
    constexpr int32_t kGroup = R > kRows ? 1 : kGroupTokens;
    const int64_t stride = weight_row_bytes(type, cols);
    for (int64_t r = row_begin; r < row_end; r += R) {
      // Beyond the end the last row is computed again and thrown away.
      const int64_t rows_here = row_end - r < R ? row_end - r : R;
      const std::byte* rows[R];
      for (int i = 0; i < R; ++i) rows[i] = weights + (r + (i < rows_here ? i : rows_here - 1)) * stride;
      for (int32_t group = 0; group < tokens; group += kGroup) {
        const int32_t n = tokens - group < kGroup ? tokens - group : kGroup;
        alignas(64) float sums[kGroup][R][kLanes];
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
    const auto product = tokens == 1 ? multiply<kRowsOfOneToken> : multiply<kRows>;
    product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
  }
};

}  // namespace
}  // namespace cairn::cpu
