/// Products of many tokens where registers hold both the integer and the float sums of a tile (AVX-512).
///
/// Multiplying a weight's scale by an activation's, for each pair of a row and a token, would take a tenth of the
/// multiplications that a processor can do. But an activation's scale is one of four numbers times a power of two
/// (int8_row.h): weights' scales are multiplied by the four once for all tokens, and per token an exponent is added, as
/// an integer, by units that have nothing else to do. The bits are those of the product as long as no exponent leaves
/// its range; what is not ordinary is left to the tiles of few tokens, whose sums these continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_panel.h"

namespace cairn::cpu {
namespace {

/// Blocks at once: their codes, the activations of a tile's tokens and the sums share the L1 cache.
inline constexpr int32_t kScaledBlocksMax = 16;

/// Codes of a block of kRows rows, unpacked, and their scales.
template <class V, Int8Shape kShape, int kRows>
struct alignas(64) ScaledBlock {
  static constexpr int kParts = kShape.halves ? 2 : 1;
  static constexpr int kVectors = kRows / V::kLanes;

  uint8_t codes[8][kRows][4];
  int32_t factors[kParts][kInt8Mantissas][kRows];  ///< V::factor_bits of the scales
  uint16_t present[kParts][kVectors];              ///< lanes whose scale is not 0
  alignas(64) float minima[kShape.minima == Int8Shape::kNone ? 1 : kRows];

  /// Whether all scales are ordinary.
  template <class Source>
  bool fill(const Source& from) {
    bool ordinary = true;
    for (int v = 0; v < kVectors; ++v) {
      const int row = v * V::kLanes;
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) V::store(codes[k][row], from.template group<0>(k, v));
      if constexpr (kShape.minima != Int8Shape::kNone) V::store(minima + row, from.minimum(v));
      for (int part = 0; part < kParts; ++part) ordinary &= fill_scales(part, v, scale_of(from, part, v));
    }
    return ordinary;
  }

 private:
  template <class Source>
  static typename V::F scale_of(const Source& from, int part, int v) {
    if constexpr (kShape.halves) {
      return from.half_scale(part, v);
    } else {
      return from.scale(v);
    }
  }
  bool fill_scales(int part, int v, typename V::F scales) {
    present[part][v] = V::present(scales);
#pragma GCC unroll 4
    for (int m = 0; m < kInt8Mantissas; ++m) {
      V::store(factors[part][m] + v * V::kLanes, V::factor_bits(scales, 1 + m * (1.0f / kInt8Mantissas)));
    }
    return V::ordinary(scales);
  }
};

/// Whether all of the activations' scales are between 2^-60 and 2^60.
inline bool scales_are_ordinary(const std::byte* const* inputs, int32_t tokens, int64_t cols) {
  constexpr uint32_t kLowest = (127 - 60) << 23;
  constexpr uint32_t kRange = 120 << 23;
  uint32_t most = 0;
  for (int32_t t = 0; t < tokens; ++t) {
    const float* scales = int8_row(inputs[t], cols).scales;
    for (int64_t b = 0; b < cols / 32; ++b) {
      const uint32_t above = __builtin_bit_cast(uint32_t, scales[b]) - kLowest;
      most = most > above ? most : above;
    }
  }
  return most < kRange;
}

}  // namespace
}  // namespace cairn::cpu
