/// Products of the file's rows with activations of float32, or of BF16 rows with bfloat16 ones, written once over an
/// ISA's vectors. A pair's sum runs in V::kLanes lanes, lane l over columns l, l + kLanes, ... (of bfloat16: over pairs
/// of columns); the lanes are added at the end in a fixed tree.
///
/// V::kRows weight rows at a time meet all tokens of a group, V::kTokens at a time. F32, F16 and BF16 rows are read in
/// place: to convert a number in a register again costs less than to read it from memory as a float. The other types
/// are decoded by quant, a chunk at a time.
///
/// V is as described in float_tiles.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/float_tiles.h"
#include "kernels/cpu/matmul/lane_sums.h"
#include "kernels/cpu/matmul/matmul.h"

namespace cairn::kernels::cpu {
namespace {

template <class V>
struct FloatProducts {
  using Tiles = FloatTiles<V>;
  using X = typename V::Input;
  static constexpr int kLanes = V::kLanes;
  static constexpr int kColumns = V::kColumns;
  static constexpr bool kBf16 = kColumns > kLanes;
  // One token is bound by memory, which is read best from few places; with fewer sums than these, additions wait for
  // each other.
  static constexpr int kRowsOfOneToken = kLanes >= 8 ? 3 : 8;
  // With the longest vectors one sum is about as fast as memory, so rows that are read in place are multiplied one
  // after the other, as many as a vector of totals has lanes.
  static constexpr bool kRowByRow = kLanes >= 16;
  static constexpr int kRowsInPlace = kRowByRow ? kLanes : kRowsOfOneToken;
  // Prefetch distance in bytes when rows are read one by one: 4 or 16 KiB are no worse.
  static constexpr uintptr_t kAhead = 8192;
  // Threads' shares are multiples of 32 rows, which leaves two after tiles of six.
  static constexpr int kRowsOfRest = V::kRows == 6 ? 3 : V::kRows;
  // A multiple of every type's block: 8 rows x 1024 x 2 bytes are 16 KiB, a third of the L1 cache.
  static constexpr int64_t kChunkCols = 1024;
  static_assert(!kRowByRow || (V::kRows != kRowsInPlace && kRowsOfRest != kRowsInPlace));
  // Bounds the memory of the sums: 66 x 8 rows x 64 bytes are 33 KiB. A multiple of tiles' tokens.
  static constexpr int32_t kGroupTokens = (64 + V::kTokens - 1) / V::kTokens * V::kTokens;

  /// Whether R rows are multiplied by one token, one after the other.
  template <int R>
  static constexpr bool follow_each_other() {
    return kRowByRow && R == kRowsInPlace;
  }

  /// Address of the rows that follow these.
  template <int R>
  static uintptr_t next_rows(const std::byte* const* rows) {
    return reinterpret_cast<uintptr_t>(rows[0]) + static_cast<uintptr_t>(R * (rows[1] - rows[0]));
  }

  template <class W, int R>
  static void tiles_in_place(const std::byte* const* rows, const std::byte* const* inputs, int32_t tokens,
                             int64_t begin, int64_t n, float* sums) {
    const W* w[R];
    for (int r = 0; r < R; ++r) w[r] = reinterpret_cast<const W*>(rows[r]) + begin;
    if constexpr (follow_each_other<R>()) {
      const X* x = reinterpret_cast<const X*>(inputs[0]) + begin;
      // Without prefetching, the address being read: its line is being loaded anyway.
      const uintptr_t ahead = read_ahead(1).to == PrefetchPolicy::kNowhere ? 0 : kAhead;
      // Rows that only pad the group repeat the last one, and are skipped.
      for (int r = 0; r < R && (r == 0 || w[r] != w[r - 1]); ++r) {
        Tiles::template tile<1, 1>(w + r, &x, n, reinterpret_cast<uintptr_t>(w[r]) + ahead, begin == 0,
                                   sums + r * kLanes);
      }
      return;
    }
    Tiles::template tiles<R>(w, inputs, tokens, begin, n, next_rows<R>(rows) + R * begin * sizeof(W), sums);
  }

  template <int R>
  static void tiles_decoded(TensorType type, const std::byte* const* rows, const std::byte* const* inputs,
                            int32_t tokens, int64_t begin, int64_t n, float* sums) {
    alignas(64) float decoded[R][kChunkCols];
    const float* w[R];
    Tiles::prefetch(next_rows<R>(rows) + static_cast<uintptr_t>(R * weight_row_bytes(type, begin)),
                    R * static_cast<size_t>(weight_row_bytes(type, n)));
    for (int r = 0; r < R; ++r) {
      decode_weights(type, rows[r] + weight_row_bytes(type, begin), n, decoded[r]);
      w[r] = decoded[r];
    }
    Tiles::template tiles<R>(w, inputs, tokens, begin, n, reinterpret_cast<uintptr_t>(decoded), sums);
  }

  /// Multiplies the last columns, fewer than kColumns, padded with zeros.
  template <int R>
  static void tail(TensorType type, const std::byte* const* rows, const std::byte* const* inputs, int32_t tokens,
                   int64_t begin, int64_t n, float* sums) {
    alignas(64) X w_tail[R][kColumns] = {};
    const X* w[R];
    for (int r = 0; r < R; ++r) {
      const std::byte* from = rows[r] + weight_row_bytes(type, begin);
      if constexpr (kBf16) {
        std::memcpy(w_tail[r], from, static_cast<size_t>(n) * sizeof(X));
      } else {
        decode_weights(type, from, n, w_tail[r]);
      }
      w[r] = w_tail[r];
    }
    for (int32_t t = 0; t < tokens; ++t) {
      alignas(64) X x_tail[kColumns] = {};
      std::memcpy(x_tail, reinterpret_cast<const X*>(inputs[t]) + begin, static_cast<size_t>(n) * sizeof(X));
      const X* x = x_tail;
      Tiles::template tile<R, 1>(w, &x, kColumns, reinterpret_cast<uintptr_t>(w_tail), begin == 0,
                                 sums + int64_t{t} * R * kLanes);
    }
  }

  template <int R>
  static void multiply_group(TensorType type, const std::byte* const* rows, int64_t cols,
                             const std::byte* const* inputs, int32_t tokens, float* sums) {
    const int64_t whole = cols / kColumns * kColumns;
    const int64_t chunk = follow_each_other<R>() ? whole : kChunkCols;
    for (int64_t begin = 0; begin < whole; begin += chunk) {
      const int64_t n = whole - begin < chunk ? whole - begin : chunk;
      if constexpr (kBf16) {
        tiles_in_place<Bf16, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kF32) {
        tiles_in_place<float, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kF16) {
        tiles_in_place<uint16_t, R>(rows, inputs, tokens, begin, n, sums);
      } else if (type == TensorType::kBF16) {
        tiles_in_place<Bf16, R>(rows, inputs, tokens, begin, n, sums);
      } else if constexpr (!follow_each_other<R>()) {
        tiles_decoded<R>(type, rows, inputs, tokens, begin, n, sums);
      }
    }
    // Types of larger blocks have no tail: all blocks are multiples of 32.
    if (whole < cols) tail<R>(type, rows, inputs, tokens, whole, cols - whole, sums);
  }

  template <int R>
  static void multiply(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    constexpr int kSumsMax = (kGroupTokens * R + kLanes - 1) / kLanes * kLanes;
    const int64_t stride = weight_row_bytes(type, cols);
    for (int64_t r = row_begin; r < row_end; r += R) {
      // Rows beyond the end are the last row again; their results are dropped.
      const int64_t rows_here = row_end - r < R ? row_end - r : R;
      const std::byte* rows[R];
      for (int i = 0; i < R; ++i) rows[i] = weights + (r + (i < rows_here ? i : rows_here - 1)) * stride;
      for (int32_t group = 0; group < tokens; group += kGroupTokens) {
        const int32_t n = tokens - group < kGroupTokens ? tokens - group : kGroupTokens;
        alignas(64) float sums[kSumsMax][kLanes];
        const int pairs = (n * R + kLanes - 1) / kLanes * kLanes;
        multiply_group<R>(type, rows, cols, inputs + group, n, sums[0]);
        std::memset(sums[0] + n * R * kLanes, 0, static_cast<size_t>(pairs - n * R) * sizeof(sums[0]));
        alignas(64) float totals[kSumsMax];
        for (int i = 0; i < pairs; i += kLanes) V::store(totals + i, LaneSums<V>::template add<1>(sums + i));
        for (int32_t t = 0; t < n; ++t) {
          for (int64_t i = 0; i < rows_here; ++i) outputs[group + t][r + i] = totals[t * R + i];
        }
      }
    }
  }

  /// Implements matmul_rows (matmul.h).
  static void matmul(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                     const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    if (tokens == 1) {
      const bool in_place = type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16;
      const auto product = in_place ? multiply<kRowsInPlace> : multiply<kRowsOfOneToken>;
      return product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
    }
    const int64_t rest = row_end - (row_end - row_begin) % V::kRows;
    multiply<V::kRows>(type, weights, cols, row_begin, rest, inputs, tokens, outputs);
    multiply<kRowsOfRest>(type, weights, cols, rest, row_end, inputs, tokens, outputs);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
