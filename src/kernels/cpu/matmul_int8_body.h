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

#include "kernels/cpu/int8_tiles.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/scaled_blocks.h"

namespace cairn::cpu {
namespace {

/// Activations of kTokensAtOnce tokens that the L2 cache holds (430 KiB), in blocks of each. Of longer rows, so many
/// are multiplied by kRowGroups groups of kPanels panels before the next ones are read.
inline constexpr int64_t kBlocksInL2 = 64;
inline constexpr int kRowGroups = 4;

template <class V>
struct Int8Products {
  using F = typename V::F;
  using Tiles = Int8Tiles<V>;
  using Sums = typename Tiles::Sums;
  static constexpr int kRows = Tiles::kRows;

  /// outputs[t][row + i] = row i of the panels times inputs[t], for i in [0, rows) and t in [0, tokens): at most
  /// kGroups times kPanels panels and kTokensAtOnce tokens. Several groups take turns every kBlocksInL2 blocks.
  template <Int8Type kType, int kPanels, int kGroups>
  static void multiply_rows(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                            const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    constexpr int64_t kGroupRows = int64_t{kPanels} * kPanelLanes;
    alignas(64) Sums sums[kGroups][kTokensAtOnce + Tiles::kSpareSums];
    for (auto& group : sums) clear<kGroupRows>(group, tokens);
    const int64_t blocks = cols / 32;
    const int64_t at_once = kGroups == 1 ? blocks : kBlocksInL2;
    const int64_t stride = kPanels * int8_traits(kType).format.panel_bytes(cols);
    for (int64_t begin = 0; begin < blocks; begin += at_once) {
      const int64_t end = blocks - begin < at_once ? blocks : begin + at_once;
      for (int64_t g = 0; g * kGroupRows < rows; ++g) {
        Tiles::template multiply_panels<kType, kPanels>(codebook, panels + g * stride, cols, begin, end, inputs, tokens,
                                                        sums[g]);
      }
    }
    for (int64_t g = 0; g * kGroupRows < rows; ++g) {
      const int64_t first = g * kGroupRows;
      put_all<kGroupRows>(sums[g], rows - first, tokens, outputs, row + first);
    }
  }

  /// The same with ScaledProducts: of kRowGroups times V::kPanels panels, more than one panel, and more than
  /// V::many_above(kType) tokens.
  template <Int8Type kType>
  static void multiply_scaled(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                              const std::byte* const* inputs, int32_t tokens, float* const* outputs, int64_t row) {
    constexpr PanelFormat kFormat = int8_traits(kType).format;
    alignas(64) Sums sums[kRowGroups][kTokensAtOnce + Tiles::kSpareSums];
    typename Tiles::template Chunk<kType, V::kPanels> chunk;
    ScaledProducts<V, kShapeOf<V, kType>, kRows> products;
    const int64_t blocks = cols / 32;
    const int64_t stride = V::kPanels * kFormat.panel_bytes(cols);
    for (int64_t begin = 0, end; begin < blocks; begin = end) {
      end = blocks - begin < kScaledBlocksMax ? blocks : begin + kScaledBlocksMax;
      const bool ordinary = products.take_tokens(inputs, tokens, places(inputs[0], cols, begin), end - begin);
      for (int64_t g = 0; g * kRows < rows; ++g) {
        const std::byte* pair = panels + g * stride;
        const int64_t left = rows - g * kRows;
        const bool last = end == blocks;
        const bool ends = last && left >= kRows;
        // The same blocks of the next rows, or the next blocks of the first.
        const std::byte* next = left > kRows ? section_at(kFormat, pair + stride, begin)
                                : last       ? pair + stride
                                             : section_at(kFormat, panels, end);
        if (ordinary && products.take_rows(chunk.blocks(codebook, pair, cols, begin, end - begin, {}))) {
          const PanelsAhead ahead(kFormat, next, cols, end - begin);
          products.add(ahead, sums[g], begin == 0, ends, outputs, row + g * kRows);
          if (ends) continue;
        } else {
          if (begin == 0) clear<kRows>(sums[g], tokens);
          Tiles::template multiply_panels<kType, V::kPanels>(codebook, pair, cols, begin, end, inputs, tokens, sums[g]);
        }
        if (last) put_all<kRows>(sums[g], left, tokens, outputs, row + g * kRows);
      }
    }
  }

  /// The function for several groups of many tokens.
  template <Int8Type kType>
  static constexpr auto multiply_groups() {
    if constexpr (Tiles::template kScales<kType>) {
      return multiply_scaled<kType>;
    } else {
      return multiply_rows<kType, V::kPanels, kRowGroups>;
    }
  }

  // Both take vectors at a time: for so few bytes the compiler's own instructions take ten times as long.
  template <int kCount>
  static void clear(Sums* sums, int32_t tokens) {
    for (int32_t t = 0; t < tokens + Tiles::kSpareSums; ++t) {
      for (int i = 0; i < kCount; i += V::kLanes) V::store(sums[t] + i, V::set(0));
    }
  }
  /// The first `rows` sums of each token, kCount at most.
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

  /// matmul_panels (matmul.h) of one kind of types.
  template <Int8Type kType>
  static void multiply(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                       const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
    constexpr Int8Traits kTraits = int8_traits(kType);
    const Codebook codebook = kTraits.codebook ? codebook_of(type) : Codebook{{}, 1};
    const int64_t stride = kTraits.format.panel_bytes(cols);
    constexpr bool kScales = Tiles::template kScales<kType>;
    for (int32_t begin = 0; begin < tokens; begin += kTokensAtOnce) {
      const int32_t count = tokens - begin < kTokensAtOnce ? tokens - begin : kTokensAtOnce;
      // One token or two wait for memory, which is read best from one place.
      const bool many = count > V::many_above(kType);
      const bool grouped = many && (kScales || cols / 32 > kBlocksInL2);
      const int64_t at_once = grouped ? kRowGroups * kRows : count > 2 ? kRows : kPanelLanes;
      for (int64_t r = row_begin, rows; r < row_end; r += rows) {
        rows = row_end - r < at_once ? row_end - r : at_once;
        if (rows > kRows) rows = rows / kRows * kRows;
        const std::byte* panels = weights + r / kPanelLanes * stride;
        const auto multiply = [&](auto function) {
          function(codebook, panels, cols, rows, inputs + begin, count, outputs + begin, r);
        };
        if (rows <= kPanelLanes) {
          multiply(multiply_rows<kType, 1, 1>);
        } else if (rows > kRows || (many && kScales)) {
          multiply(multiply_groups<kType>());
        } else {
          multiply(multiply_rows<kType, V::kPanels, 1>);
        }
      }
    }
    if (tokens >= kTokensPastCaches) V::streamed();
  }
};

}  // namespace
}  // namespace cairn::cpu
