/// Products of many tokens where registers hold both the integer and the float sums of a tile (AVX-512). Blocks of two
/// panels are unpacked once for all tokens. Results have the same bits as those of BlockProducts (int8_block.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/matmul_panel.h"

namespace cairn::kernels::cpu {
namespace {

/// Maximum blocks at once: their codes, the activations of a tile's tokens and the sums share the L1 cache.
inline constexpr int32_t kScaledBlocksMax = 16;

/// Rows at once: those of two panels.
inline constexpr int kScaledRows = 2 * kPanelLanes;

/// Scales of a vector of rows, for a block or for its half `part`.
template <Int8Shape kShape, class Source>
[[gnu::always_inline]] inline auto part_scale(const Source& from, int part, int v) {
  if constexpr (kShape.halves) {
    return from.half_scale(part, v);
  } else {
    return from.scale(v);
  }
}

/// Codes of a block of kScaledRows rows, unpacked, and their scales.
template <class V, Int8Shape kShape>
struct alignas(64) ScaledBlock {
  static constexpr int kRows = kScaledRows;
  static constexpr int kParts = kShape.halves ? 2 : 1;
  static constexpr int kVectors = kRows / V::kLanes;

  uint8_t codes[8][kRows][4];
  float scales[kParts][kRows];
  alignas(64) float minima[kShape.minima == Int8Shape::kNone ? 1 : kRows];

  template <class Source>
  void fill(const Source& from) {
    for (int v = 0; v < kVectors; ++v) {
      const int row = v * V::kLanes;
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) V::store(codes[k][row], from.group(k, v));
      if constexpr (kShape.minima != Int8Shape::kNone) V::store(minima + row, from.minimum(v));
      for (int part = 0; part < kParts; ++part) V::store(scales[part] + row, part_scale<kShape>(from, part, v));
    }
  }
};

/// Initial values of the integer sums of a token's blocks, at most kBlocks (fill_starts).
template <class V, Int8Shape kShape, int64_t kBlocks>
struct alignas(64) ScaledToken {
  static constexpr int kParts = kShape.halves ? 2 : 1;
  static_assert(kBlocks * kParts % V::kLanes == 0);

  int32_t starts[kShape.offset == 0 ? 1 : kBlocks * kParts];

  /// Fills in `count` blocks, the first at `at` of the row.
  void fill(const std::byte* row, const Places& at, int64_t count) {
    if constexpr (kShape.offset != 0) fill_starts<V, kShape>(row, at, count, starts);
  }
  typename V::I start(int64_t block, int part) const {
    if constexpr (kShape.offset == 0) return V::broadcast(0);
    return V::broadcast(starts[block * kParts + part]);
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
