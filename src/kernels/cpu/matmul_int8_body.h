/// Products with int8 activations, written once over an ISA's vectors.
///
/// V::kRows weight rows are one vector: a chunk of columns of them is transposed to [column / 4][row][4 columns], so
/// that an activation vector is 4 columns broadcast, a lane belongs to one row and nothing is ever summed across lanes.
/// Per block of 32 columns the exact integer sum of each pair is converted to float and added to the pair's one
/// accumulator, in order of blocks.
///
/// V is the ISA's Int8Vector (<isa>/matmul.cpp): I and F, one register of integers and of floats; kRows; kTokens of a
/// tile; small operations; and block_sums, the integer sums of one block for T tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_panel.h"

namespace cairn::cpu {
namespace {

/// Columns decoded at once, in blocks: a multiple of the 8 of a K format's super-block. Few, so that weights come from
/// memory in small portions with all tokens' arithmetic between them, and most of the L1 cache is the activations'.
inline constexpr int32_t kChunkBlocks = 16;
/// Tokens that share a decoded panel.
inline constexpr int32_t kGroupTokens = 64;

template <class V>
struct Int8Products {
  using I = typename V::I;
  using F = typename V::F;
  using Block = PanelBlock<V>;
  static constexpr int kRows = V::kRows;

  /// Asks for the part of the next rows that lies as far into them as kBlocks from `block` on lie into these: a
  /// processor's own prefetchers do not follow many short streams. Reading beyond the matrix is only asked for.
  template <Int8Type kType, int kBlocks>
  static void prefetch_next(const std::byte* row, int64_t stride, int64_t block) {
    constexpr int64_t kBlockBytes = kRows * weight_block_bytes(kType) / weight_block_step(kType);
    const auto* begin = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(row) +
                                                      static_cast<uintptr_t>(kRows * stride + block * kBlockBytes));
#pragma GCC unroll 64
    for (int64_t line = 0; line < (kBlocks * kBlockBytes + 63) / 64; ++line) {
      __builtin_prefetch(begin + 64 * line);
    }
  }

  /// Continues the accumulators of T tokens over one block.
  template <Int8Type kType, int T>
  [[gnu::always_inline]] static void add_block(const Block& block, const std::byte* const* rows, const Places& at,
                                               F* sums) {
    I dots[T];
    V::template block_sums<kType, T>(block, rows, at, dots);
    const F scale = V::load_floats(block.scales);
    for (int t = 0; t < T; ++t) {
      const F both = V::multiply(scale, V::broadcast_float(rows[t] + at.scales));
      sums[t] = V::multiply_add(V::to_float(dots[t]), both, sums[t]);
    }
    if constexpr (kType == Int8Type::kQ4_K) {
      const F minimum = V::load_floats(block.minima);
      for (int t = 0; t < T; ++t) {
        sums[t] = V::multiply_subtract(minimum, V::broadcast_float(rows[t] + at.scaled_sums), sums[t]);
      }
    }
  }

  /// Continues the accumulators [T][kRows] over `blocks` blocks, the first one at `at` of the inputs. Not inlined: the
  /// register allocator does best with one tile at a time.
  template <Int8Type kType, int T>
  [[gnu::noinline]] static void tile(const Block* panel, int32_t blocks, const std::byte* const* inputs, Places at,
                                     float (*acc)[kRows]) {
    const std::byte* rows[T];
    F sums[T];
    for (int t = 0; t < T; ++t) {
      rows[t] = inputs[t];
      sums[t] = V::load_floats(acc[t]);
    }
    for (int32_t b = 0; b < blocks; ++b) {
      add_block<kType, T>(panel[b], rows, at, sums);
      at.advance();
    }
    for (int t = 0; t < T; ++t) V::store(acc[t], sums[t]);
  }

  template <Int8Type kType, int T>
  static void tile_of(int32_t count, const Block* panel, int32_t blocks, const std::byte* const* inputs,
                      const Places& at, float (*acc)[kRows]) {
    if constexpr (T > 1) {
      if (count < T) return tile_of<kType, T - 1>(count, panel, blocks, inputs, at, acc);
    }
    tile<kType, T>(panel, blocks, inputs, at, acc);
  }

  /// kRows rows from `row` on, or as many as there are before `end`: beyond it the last one is computed again and
  /// thrown away.
  struct RowGroup {
    RowGroup(const std::byte* weights, int64_t stride, int64_t row, int64_t end)
        : count(end - row < kRows ? end - row : kRows), bytes(static_cast<size_t>(count) * sizeof(float)) {
      for (int i = 0; i < kRows; ++i) rows[i] = weights + (row + (i < count ? i : count - 1)) * stride;
    }
    int64_t count;
    size_t bytes;  // of their outputs
    const std::byte* rows[kRows];
  };

  /// One token: blocks are used up as they are decoded, so that loading and computing overlap.
  template <Int8Type kType>
  static void multiply_one(const std::byte* weights, int64_t stride, int64_t cols, int64_t row_begin, int64_t row_end,
                           const std::byte* input, float* output) {
    constexpr int32_t kStep = weight_block_step(kType);
    Block panel[kStep];
    for (int64_t r = row_begin; r < row_end; r += kRows) {
      const RowGroup group(weights, stride, r, row_end);
      Places at = places(input, cols, 0);
      F sum = V::zero();
      for (int64_t begin = 0; begin < cols / 32; begin += kStep) {
        PanelDecoder<V>::template decode<kType>(group.rows, begin, panel);
        for (int32_t b = 0; b < kStep; ++b) {
          prefetch_next<kType, 1>(group.rows[0], stride, begin + b);
          add_block<kType, 1>(panel[b], &input, at, &sum);
          at.advance();
        }
      }
      alignas(64) float acc[kRows];
      V::store(acc, sum);
      std::memcpy(output + r, acc, group.bytes);
    }
  }

  /// One group of rows for 2 to kGroupTokens tokens: every chunk of the rows is decoded once for all of them.
  template <Int8Type kType>
  static void multiply_group(const RowGroup& group, int64_t stride, int64_t cols, const std::byte* const* inputs,
                             int32_t tokens, float (*acc)[kRows]) {
    constexpr int32_t kStep = weight_block_step(kType);
    Block panel[kChunkBlocks];
    const int64_t blocks = cols / 32;
    for (int64_t begin = 0; begin < blocks; begin += kChunkBlocks) {
      const auto n = static_cast<int32_t>(blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks);
      for (int32_t b = 0; b < n; b += kStep) {
        prefetch_next<kType, kStep>(group.rows[0], stride, begin + b);
        PanelDecoder<V>::template decode<kType>(group.rows, begin + b, panel + b);
      }
      const Places at = places(inputs[0], cols, begin);
      for (int32_t t = 0; t < tokens; t += V::kTokens) {
        const int32_t count = tokens - t < V::kTokens ? tokens - t : V::kTokens;
        tile_of<kType, V::kTokens>(count, panel, n, inputs + t, at, acc + t);
      }
    }
  }

  template <Int8Type kType>
  static void multiply(const std::byte* weights, int64_t stride, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    for (int32_t begin = 0; begin < tokens; begin += kGroupTokens) {
      const int32_t count = tokens - begin < kGroupTokens ? tokens - begin : kGroupTokens;
      if (count == 1) {
        multiply_one<kType>(weights, stride, cols, row_begin, row_end, inputs[begin], outputs[begin]);
        continue;
      }
      for (int64_t r = row_begin; r < row_end; r += kRows) {
        const RowGroup group(weights, stride, r, row_end);
        alignas(64) float acc[kGroupTokens][kRows];
        std::memset(acc, 0, static_cast<size_t>(count) * sizeof(acc[0]));
        multiply_group<kType>(group, stride, cols, inputs + begin, count, acc);
        for (int32_t t = 0; t < count; ++t) std::memcpy(outputs[begin + t] + r, acc[t], group.bytes);
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
    product(weights, weight_row_bytes(type, cols), cols, row_begin, row_end, inputs, tokens, outputs);
  }
};

}  // namespace
}  // namespace cairn::cpu
