/// Products with int8 activations, written once over an ISA's vectors.
///
/// Weights are panels (panel.h): an activation vector is 4 columns broadcast, a lane belongs to one row and nothing is
/// ever summed across lanes. Per block of 32 columns the exact integer sum of each pair is converted to float and added
/// to the pair's one accumulator, in order of blocks.
///
/// V is the ISA's Int8Vector (<isa>/matmul.cpp): I and F, one register of integers and of floats, of kLanes rows;
/// kTokens of a tile; small operations; and block_sums, the integer sums of one block for T tokens and R vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_panel.h"

namespace cairn::cpu {
namespace {

/// Blocks unpacked at once, a multiple of 8: they, the activations of the tokens that meet them and their sums share
/// the L1 cache.
inline constexpr int32_t kUnpackedBlocks = 16;
/// Tokens that share an unpacked chunk.
inline constexpr int32_t kGroupTokens = 64;

template <class V>
struct Int8Products {
  using I = typename V::I;
  using F = typename V::F;
  static constexpr int kRows = static_cast<int>(kPanelRows);
  static constexpr int kVectors = kRows / V::kLanes;
  /// One token's sums of a panel. In memory: the integer sums need the registers.
  using Sums = float[kRows];

  /// Continues the sums of T tokens over the source's current block, for vectors [v, v + R).
  template <Int8Type kType, int T, int R, class Source>
  [[gnu::always_inline]] static void add_block(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums* sums) {
    I dots[T][R];
    V::template block_sums<kType, T, R>(source, v, rows, at, dots);
    F scales[R];
    for (int r = 0; r < R; ++r) scales[r] = source.scale(v + r);
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      for (int r = 0; r < R; ++r) {
        float* place = sums[t] + (v + r) * V::kLanes;
        F sum = V::multiply_add(V::to_float(dots[t][r]), V::multiply(scales[r], scale), V::load_floats(place));
        if constexpr (kType == Int8Type::kQ4_K) {
          sum = V::multiply_subtract(source.minimum(v + r), V::broadcast_float(rows[t] + at.scaled_sums), sum);
        }
        V::store(place, sum);
      }
    }
  }

  /// Continues the sums of T tokens over `count` blocks of the source, the first one at `at` of the inputs. Not
  /// inlined: the register allocator does best with one tile at a time.
  template <Int8Type kType, int T, class Source>
  [[gnu::noinline]] static void tile(Source source, int64_t count, const std::byte* const* inputs, Places at,
                                     Sums* sums) {
    constexpr int kAtOnce = V::vectors_at_once(kType);
    const std::byte* rows[T];
    for (int t = 0; t < T; ++t) rows[t] = inputs[t];
    for (int64_t b = 0; b < count; ++b) {
      source.prefetch();
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v += kAtOnce) add_block<kType, T, kAtOnce>(source, v, rows, at, sums);
      source.next();
      at.advance();
    }
  }

  template <Int8Type kType, int T, class Source>
  static void tile_of(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                      const Places& at, Sums* sums) {
    if constexpr (T > 1) {
      if (tokens < T) return tile_of<kType, T - 1>(tokens, source, count, inputs, at, sums);
    }
    tile<kType, T>(source, count, inputs, at, sums);
  }

  /// The same for any number of tokens, in tiles of about the same size: small ones cost more a token.
  template <Int8Type kType, class Source>
  static void tiles(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                    const Places& at, Sums* sums) {
    const int32_t tile_count = (tokens + V::kTokens - 1) / V::kTokens;
    for (int32_t i = 0, t = 0; i < tile_count; ++i) {
      const int32_t n = (tokens - t + tile_count - i - 1) / (tile_count - i);
      tile_of<kType, V::kTokens>(n, source, count, inputs + t, at, sums + t);
      t += n;
    }
  }

  /// A chunk of `count` blocks from block `begin` on, unpacked a few at a time.
  template <Int8Type kType>
  static void multiply_unpacked(PanelBlocks<V, kType> blocks, int64_t begin, int64_t count, int64_t cols,
                                const std::byte* const* inputs, int32_t tokens, Sums* sums) {
    UnpackedBlock<V, kType> few[kUnpackedBlocks];
    for (int64_t done = 0; done < count; done += kUnpackedBlocks) {
      const int64_t n = count - done < kUnpackedBlocks ? count - done : kUnpackedBlocks;
      for (int64_t b = 0; b < n; ++b) {
        blocks.prefetch();
        few[b].fill(blocks);
        blocks.next();
      }
      tiles<kType>(tokens, UnpackedBlocks<V, kType>(few), n, inputs, places(inputs[0], cols, begin + done), sums);
    }
  }

  /// One panel for at most kGroupTokens tokens.
  template <Int8Type kType>
  static void multiply_panel(const std::byte* panel, int64_t cols, const std::byte* const* inputs, int32_t tokens,
                             Sums* sums) {
    constexpr PanelFormat kFormat = panel_format_of(kType);
    PanelScales<V, kType> scales;
    for (int64_t begin = 0; begin < cols / 32; begin += kChunkBlocks) {
      const int64_t count = cols / 32 - begin < kChunkBlocks ? cols / 32 - begin : kChunkBlocks;
      if constexpr (scales.kK) scales.unpack(panel + begin / 8 * kFormat.head_bytes, count);
      const PanelBlocks<V, kType> blocks(panel, cols, begin, scales);
      if constexpr (V::unpacks(kType)) {
        if (tokens > V::kTokens) {
          multiply_unpacked<kType>(blocks, begin, count, cols, inputs, tokens, sums);
          continue;
        }
      }
      tiles<kType>(tokens, blocks, count, inputs, places(inputs[0], cols, begin), sums);
    }
  }

  template <Int8Type kType>
  static void multiply(const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    const int64_t stride = panel_format_of(kType).panel_bytes(cols);
    for (int32_t begin = 0; begin < tokens; begin += kGroupTokens) {
      const int32_t count = tokens - begin < kGroupTokens ? tokens - begin : kGroupTokens;
      for (int64_t r = row_begin; r < row_end; r += kRows) {
        alignas(64) Sums sums[kGroupTokens];
        std::memset(sums, 0, static_cast<size_t>(count) * sizeof(Sums));
        multiply_panel<kType>(weights + r / kRows * stride, cols, inputs + begin, count, sums);
        const int64_t rows = row_end - r < kRows ? row_end - r : kRows;
        for (int32_t t = 0; t < count; ++t) {
          std::memcpy(outputs[begin + t] + r, sums[t], static_cast<size_t>(rows) * sizeof(float));
        }
      }
    }
  }

  /// matmul_rows of the types that use_int8.
  static void matmul(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                     const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    const auto product = type == TensorType::kQ8_0   ? multiply<Int8Type::kQ8_0>
                         : type == TensorType::kQ4_0 ? multiply<Int8Type::kQ4_0>
                         : type == TensorType::kQ4_K ? multiply<Int8Type::kQ4_K>
                                                     : multiply<Int8Type::kQ6_K>;
    product(weights, cols, row_begin, row_end, inputs, tokens, outputs);
  }
};

}  // namespace
}  // namespace cairn::cpu
