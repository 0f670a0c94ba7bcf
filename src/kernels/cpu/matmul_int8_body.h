/// Products with int8 activations, written once over an ISA's vectors.
///
/// Weights are panels (panel.h): an activation vector is 4 columns broadcast, a lane belongs to one row. Per block of
/// 32 columns the exact integer sum of each pair is converted to float and added to the pair's one accumulator, in
/// order of blocks.
///
/// V is the ISA's Int8Vector (<isa>/int8_vector.h): I and F, registers of kLanes rows; kTokens of a tile; small
/// operations; and block_sums, the integer sums of one block for T tokens and R vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_panel.h"

namespace cairn::cpu {
namespace {

/// Blocks unpacked at once: they, the activations of a tile's tokens and the sums share the L1 cache.
inline constexpr int32_t kUnpackedBlocks = 16;
/// Tokens that share them, a multiple of V::kTokens.
inline constexpr int32_t kGroupTokens = 64;

template <class V>
struct Int8Products {
  using I = typename V::I;
  using F = typename V::F;
  static constexpr int kRows = kPanelLanes, kVectors = kRows / V::kLanes;
  /// One token's sums of a panel. In memory: the integer sums need the registers.
  using Sums = float[kRows];

  /// Continues the sums of T tokens over the source's current block, for vectors [v, v + R).
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void add_block(const Source& source, int v, const std::byte* const* rows,
                                               const Places& at, Sums* sums) {
    constexpr auto kMinima = Source::kShape.minima;
    I dots[T][R];
    F scales[R];
    V::template block_sums<T, R>(source, v, rows, at, dots);
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

  /// Continues the sums of T tokens over `count` blocks, the first at `at` of the inputs. Of T inputs only the first
  /// `tokens` count: the others' sums are of the last one. Not inlined, for registers.
  template <int T, class Source>
  [[gnu::noinline]] static void tile(Source source, int64_t count, const std::byte* const* inputs, int32_t tokens,
                                     Places at, Sums* sums) {
    constexpr int kAtOnce = V::vectors_at_once(Source::kShape);
    const std::byte* rows[T];
    for (int t = 0; t < T; ++t) rows[t] = inputs[t < tokens ? t : tokens - 1];
    for (int64_t b = 0; b < count; ++b) {
      source.prefetch();
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v += kAtOnce) add_block<T, kAtOnce>(source, v, rows, at, sums);
      source.next();
      at.advance();
    }
  }

  /// The smallest tile, a power of two, that has room for the tokens.
  template <int T, class Source>
  static void tile_for(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                       const Places& at, Sums* sums) {
    if constexpr (T > 1) {
      if (tokens <= T / 2) return tile_for<T / 2>(tokens, source, count, inputs, at, sums);
    }
    tile<T>(source, count, inputs, tokens, at, sums);
  }

  /// Any number of tokens. `sums` has room for a multiple of V::kTokens.
  template <class Source>
  static void tiles(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                    const Places& at, Sums* sums) {
    for (int32_t t = 0; t < tokens; t += V::kTokens) {
      const int32_t n = tokens - t < V::kTokens ? tokens - t : V::kTokens;
      tile_for<V::kTokens>(n, source, count, inputs + t, at, sums + t);
    }
  }

  /// A chunk of `count` blocks from block `begin` on, unpacked a few at a time.
  template <Int8Type kType>
  static void multiply_unpacked(PanelBlocks<V, kType> blocks, int64_t begin, int64_t count, int64_t cols,
                                const std::byte* const* inputs, int32_t tokens, Sums* sums) {
    constexpr Int8Shape kShape = int8_traits(kType).shape;
    UnpackedBlock<V, kShape> few[kUnpackedBlocks];
    for (int64_t done = 0; done < count; done += kUnpackedBlocks) {
      const int64_t n = count - done < kUnpackedBlocks ? count - done : kUnpackedBlocks;
      for (int64_t b = 0; b < n; ++b) {
        blocks.prefetch();
        few[b].fill(blocks);
        blocks.next();
      }
      tiles(tokens, UnpackedBlocks<V, kShape>(few), n, inputs, places(inputs[0], cols, begin + done), sums);
    }
  }

  /// One panel for at most kGroupTokens tokens.
  template <Int8Type kType>
  static void multiply_panel(const Codebook& codebook, const std::byte* panel, int64_t cols,
                             const std::byte* const* inputs, int32_t tokens, Sums* sums) {
    constexpr int64_t kHeadBytes = int8_traits(kType).format.head_bytes();
    PanelScales<V, kType> scales;
    for (int64_t begin = 0; begin < cols / 32; begin += kChunkBlocks) {
      const int64_t count = cols / 32 - begin < kChunkBlocks ? cols / 32 - begin : kChunkBlocks;
      if constexpr (scales.kUnpacked) scales.unpack(panel + begin / 8 * kHeadBytes, count, codebook.multiplier);
      const PanelBlocks<V, kType> blocks(panel, cols, begin, scales, codebook);
      if constexpr (V::unpacks(kType)) {
        if (tokens > V::kTokens) {
          multiply_unpacked<kType>(blocks, begin, count, cols, inputs, tokens, sums);
          continue;
        }
      }
      tiles(tokens, blocks, count, inputs, places(inputs[0], cols, begin), sums);
    }
  }

  /// matmul_panels (matmul.h) of one kind of types.
  template <Int8Type kType>
  static void multiply(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    constexpr Int8Traits kTraits = int8_traits(kType);
    const Codebook codebook = kTraits.codebook ? codebook_of(type) : Codebook{{}, 1};
    const int64_t stride = kTraits.format.panel_bytes(cols);
    for (int32_t begin = 0; begin < tokens; begin += kGroupTokens) {
      const int32_t count = tokens - begin < kGroupTokens ? tokens - begin : kGroupTokens;
      for (int64_t r = row_begin; r < row_end; r += kRows) {
        alignas(64) Sums sums[kGroupTokens];
        std::memset(sums, 0, static_cast<size_t>((count + V::kTokens - 1) / V::kTokens * V::kTokens) * sizeof(Sums));
        multiply_panel<kType>(codebook, weights + r / kRows * stride, cols, inputs + begin, count, sums);
        const int64_t rows = row_end - r < kRows ? row_end - r : kRows;
        for (int32_t t = 0; t < count; ++t) {
          std::memcpy(outputs[begin + t] + r, sums[t], static_cast<size_t>(rows) * sizeof(float));
        }
      }
    }
  }

  /// Types are compiled in two files, which takes half as long: those with heads of 32 columns and those of 256.
  static MatmulFunction product_of_32(TensorType type) {
    switch (type) {
      case TensorType::kQ4_0:
        return multiply<Int8Type::kQ4_0>;
      case TensorType::kQ4_1:
        return multiply<Int8Type::kQ4_1>;
      case TensorType::kQ5_0:
        return multiply<Int8Type::kQ5_0>;
      case TensorType::kQ5_1:
        return multiply<Int8Type::kQ5_1>;
      case TensorType::kQ8_0:
        return multiply<Int8Type::kQ8_0>;
      case TensorType::kIQ4_NL:
        return multiply<Int8Type::kIQ4_NL>;
      case TensorType::kMXFP4:
        return multiply<Int8Type::kMXFP4>;
      default:
        return nullptr;
    }
  }
  static MatmulFunction product_of_256(TensorType type) {
    switch (type) {
      case TensorType::kQ2_K:
        return multiply<Int8Type::kQ2_K>;
      case TensorType::kQ3_K:
        return multiply<Int8Type::kQ3_K>;
      case TensorType::kQ4_K:
        return multiply<Int8Type::kQ4_K>;
      case TensorType::kQ5_K:
        return multiply<Int8Type::kQ5_K>;
      case TensorType::kQ6_K:
        return multiply<Int8Type::kQ6_K>;
      case TensorType::kIQ4_XS:
        return multiply<Int8Type::kIQ4_XS>;
      default:
        return multiply<Int8Type::kCodes>;
    }
  }
};

}  // namespace
}  // namespace cairn::cpu
