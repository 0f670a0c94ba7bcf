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

#include "kernels/cpu/matmul/few_tokens.h"
#include "kernels/cpu/matmul/int8_tiles.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/scaled_products.h"

namespace cairn::kernels::cpu {
namespace {

/// Activations of kTokensAtOnce tokens that the L2 cache holds (430 KiB), in blocks per token. Of longer rows, this
/// many blocks are multiplied by kRowGroups panels before the next ones are read.
inline constexpr int64_t kBlocksInL2 = 64;
/// Panels, or pairs of panels, that are multiplied in turn.
inline constexpr int kRowGroups = 4;

template <class V>
struct Int8Products {
  using F = typename V::F;
  using Tiles = Int8Tiles<V>;
  using Sums = float[Tiles::kSumsRow];

  /// outputs[t][row + i] = row i of the panels times inputs[t], for i in [0, rows) and t in [0, tokens): at most
  /// kPanels panels and kTokensAtOnce tokens. With several panels, each multiplies kBlocksInL2 blocks in turn.
  template <Int8Type kType, int kPanels>
  static void multiply_rows(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                            const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    alignas(64) Sums sums[kPanels][kTokensAtOnce + Tiles::kSpareSums];
    for (auto& panel : sums) clear<kPanelLanes>(panel, tokens);
    const int64_t blocks = cols / 32;
    const int64_t at_once = kPanels == 1 ? blocks : kBlocksInL2;
    const int64_t stride = int8_traits(kType).format.panel_bytes(cols);
    for (int64_t begin = 0; begin < blocks; begin += at_once) {
      const int64_t end = blocks - begin < at_once ? blocks : begin + at_once;
      for (int64_t i = 0; i * kPanelLanes < rows; ++i) {
        Tiles::template multiply_panel<kType>(codebook, panels + i * stride, cols, begin, end, inputs, tokens,
                                              sums[i][0]);
      }
    }
    for (int64_t i = 0; i * kPanelLanes < rows; ++i) {
      const int64_t first = i * kPanelLanes;
      put_all<kPanelLanes>(sums[i], rows - first, tokens, outputs, row + first);
    }
  }

  /// Multiplies panels with ScaledProducts, for more than V::kManyAbove tokens: at most kRowGroups pairs of whole
  /// panels, or a single pair whose second panel has fewer rows.
  template <Int8Type kType>
  static void multiply_scaled(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                              const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    constexpr PanelFormat kFormat = int8_traits(kType).format;
    alignas(64) Sums sums[kRowGroups][kTokensAtOnce + Tiles::kSpareSums];
    typename Tiles::template Chunk<kType> chunks[2];
    ScaledProducts<V, kShapeOf<V, kType>> products;
    const int64_t blocks = cols / 32;
    const int64_t stride = kFormat.panel_bytes(cols);
    for (int64_t begin = 0, end; begin < blocks; begin = end) {
      end = blocks - begin < kScaledBlocksMax ? blocks : begin + kScaledBlocksMax;
      products.take_tokens(inputs, tokens, places(inputs[0], cols, begin), end - begin);
      for (int64_t g = 0; g * kScaledRows < rows; ++g) {
        const std::byte* pair = panels + 2 * g * stride;
        const int64_t left = rows - g * kScaledRows;
        const bool last = end == blocks;
        const bool ends = last && left >= kScaledRows;
        // The blocks that are prefetched: the same blocks of the next rows, or the next blocks of the first rows.
        const std::byte* next = left > kScaledRows ? section_at(kFormat, pair + 2 * stride, begin)
                                : last             ? pair + 2 * stride
                                                   : section_at(kFormat, panels, end);
        const auto source = [&] {
          const auto first = chunks[0].blocks(codebook, pair, begin, end - begin, {});
          return PanelPair(first, chunks[1].blocks(codebook, pair + stride, begin, end - begin, {}));
        };
        products.take_rows(source());
        const PanelPrefetcher ahead(kFormat, next, cols, end - begin);
        products.add(ahead, sums[g], begin == 0, ends, outputs, row + g * kScaledRows);
        if (ends) continue;
        if (last) put_all<kScaledRows>(sums[g], left, tokens, outputs, row + g * kScaledRows);
      }
    }
  }

  // clear() and put_all() copy vectors at a time: for so few bytes the compiler's own instructions take ten times as
  // long.
  template <int kCount>
  static void clear(Sums* sums, int32_t tokens) {
    for (int32_t t = 0; t < tokens + Tiles::kSpareSums; ++t) {
      for (int i = 0; i < kCount; i += V::kLanes) V::store(sums[t] + i, V::set(0));
    }
  }
  /// Writes the first `rows` sums of each token, at most kCount.
  template <int kCount>
  static void put_all(const Sums* sums, int64_t rows, int32_t tokens, float* const* outputs, int64_t row) {
    for (int32_t t = 0; t < tokens; ++t) {
      if (rows >= kCount) {
        for (int i = 0; i < kCount; i += V::kLanes) put<V>(V::load_floats(sums[t] + i), outputs[t] + row + i, tokens);
      } else {
        std::memcpy(outputs[t] + row, sums[t], static_cast<size_t>(rows) * sizeof(float));
      }
    }
  }

  /// matmul_panels (matmul.h) for one kind of types.
  template <Int8Type kType>
  static void multiply(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    constexpr Int8Traits kTraits = int8_traits(kType);
    const Codebook codebook = kTraits.codebook ? codebook_of(type) : Codebook{{}, 1};
    const int64_t stride = kTraits.format.panel_bytes(cols);
    for (int32_t begin = 0; begin < tokens; begin += kTokensAtOnce) {
      const int32_t count = tokens - begin < kTokensAtOnce ? tokens - begin : kTokensAtOnce;
      const bool many = count > V::kManyAbove;
      for (int64_t r = row_begin, rows; r < row_end; r += rows) {
        const int64_t left = row_end - r;
        const auto multiply = [&](auto function, int64_t at_most) {
          rows = left < at_most ? left : at_most;
          function(codebook, weights + r / kPanelLanes * stride, cols, rows, inputs + begin, count, outputs + begin, r);
        };
        if (FewTokens<V>::template are_few<kType>(count)) {
          multiply(FewTokens<V>::template multiply<kType>, FewTokens<V>::template rows_at_once<kType>(count, left));
          continue;
        }
        if constexpr (Tiles::template kScales<kType>) {
          if (many && left > kPanelLanes) {
            constexpr int64_t kAtOnce = kRowGroups * kScaledRows;
            const int64_t pairs = left < kAtOnce ? left / kScaledRows * kScaledRows : kAtOnce;
            multiply(multiply_scaled<kType>, pairs > 0 ? pairs : left);
            continue;
          }
        } else if (many && cols / 32 > kBlocksInL2) {
          multiply(multiply_rows<kType, kRowGroups>, kRowGroups * kPanelLanes);
          continue;
        }
        multiply(multiply_rows<kType, 1>, kPanelLanes);
      }
    }
    if constexpr (V::kStoresNonTemporally) {
      if (tokens >= kNonTemporalTokensMin) V::fence_non_temporal();
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
