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
  /// `scaled`: see multiply_panels.
  template <Int8Type kType, int kPanels, int kGroups>
  static void multiply_rows(const Codebook& codebook, const std::byte* panels, int64_t cols, int64_t rows,
                            const std::byte* const* inputs, int32_t tokens, bool scaled, float* const* outputs,
                            int64_t row) {
    constexpr int64_t kGroupRows = int64_t{kPanels} * kPanelLanes;
    alignas(64) Sums sums[kGroups][kTokensAtOnce + Tiles::kSpareSums];
    // Vectors at a time: for so few bytes the compiler's own instructions take ten times as long.
    for (int g = 0; g < kGroups; ++g) {
      for (int32_t t = 0; t < tokens + Tiles::kSpareSums; ++t) {
        for (int i = 0; i < kGroupRows; i += V::kLanes) V::store(sums[g][t] + i, V::set(0));
      }
    }
    const int64_t blocks = cols / 32;
    const int64_t at_once = kGroups == 1 ? blocks : kBlocksInL2;
    const int64_t stride = kPanels * int8_traits(kType).format.panel_bytes(cols);
    for (int64_t begin = 0; begin < blocks; begin += at_once) {
      const int64_t end = blocks - begin < at_once ? blocks : begin + at_once;
      for (int64_t g = 0; g * kGroupRows < rows; ++g) {
        Tiles::template multiply_panels<kType, kPanels>(codebook, panels + g * stride, cols, begin, end, inputs, tokens,
                                                        scaled, sums[g]);
      }
    }
    for (int64_t g = 0; g * kGroupRows < rows; ++g) {
      const int64_t first = row + g * kGroupRows;
      const int64_t left = rows - g * kGroupRows;
      for (int32_t t = 0; t < tokens; ++t) {
        if (left >= kGroupRows) {
          put<kGroupRows>(sums[g][t], outputs[t] + first, tokens);
        } else {
          std::memcpy(outputs[t] + first, sums[g][t], static_cast<size_t>(left) * sizeof(float));
        }
      }
    }
  }

  /// Copies a token's kCount sums. Those of many tokens are past the caches: their rows lie a power of two apart, so
  /// that each of their lines would be read before it is written and push another one out.
  template <int kCount>
  static void put(const float* sums, float* to, int32_t tokens) {
    const bool past = tokens >= kTokensPastCaches && reinterpret_cast<uintptr_t>(to) % 64 == 0;
    for (int i = 0; i < kCount; i += V::kLanes) {
      const F sum = V::load_floats(sums + i);
      if (past) {
        V::stream(to + i, sum);
      } else {
        std::memcpy(to + i, &sum, sizeof(sum));
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
    for (int32_t begin = 0; begin < tokens; begin += kTokensAtOnce) {
      const int32_t count = tokens - begin < kTokensAtOnce ? tokens - begin : kTokensAtOnce;
      const bool scaled =
          V::kScaledTokens > 0 && count > V::kUnpackedAbove && scales_are_ordinary(inputs + begin, count, cols);
      // One token or two wait for memory, which is read best from one place.
      const bool grouped = count > V::kUnpackedAbove && cols / 32 > kBlocksInL2;
      const int64_t at_once = grouped ? kRowGroups * kRows : count > 2 ? kRows : kPanelLanes;
      for (int64_t r = row_begin, rows; r < row_end; r += rows) {
        rows = row_end - r < at_once ? row_end - r : at_once;
        const std::byte* panels = weights + r / kPanelLanes * stride;
        if (rows > kRows) {
          rows = rows / kRows * kRows;
          multiply_rows<kType, V::kPanels, kRowGroups>(codebook, panels, cols, rows, inputs + begin, count, scaled,
                                                       outputs + begin, r);
        } else if (rows > kPanelLanes) {
          multiply_rows<kType, V::kPanels, 1>(codebook, panels, cols, rows, inputs + begin, count, scaled,
                                              outputs + begin, r);
        } else {
          multiply_rows<kType, 1, 1>(codebook, panels, cols, rows, inputs + begin, count, scaled, outputs + begin, r);
        }
      }
    }
    if (tokens >= kTokensPastCaches) V::streamed();
  }
};

}  // namespace
}  // namespace cairn::cpu
