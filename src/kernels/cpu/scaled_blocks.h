/// Products of many tokens where registers hold both the integer and the float sums of a tile (AVX-512).
///
/// Per block, multiplying a weight's scale by an activation's for each pair of a row and a token would take a tenth of
/// the multiplications that a processor can do. But an activation's scale is one of four mantissas times 2^e
/// (int8_row.h). Weights' scales are multiplied by the four once for all tokens. And an integer sum that begins with
/// the bits of the float 1.5 * 2^(e + 23) is, read as a float, that float plus the sum times 2^e: a subtraction, for
/// which there are other units, converts and scales it at once. The bits are those of the product of both scales as
/// long as no exponent leaves its range; what is not ordinary is left to the tiles of few tokens, whose sums these
/// continue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_prepared.h"
#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/matmul_panel.h"

namespace cairn::cpu {
namespace {

/// Blocks at once: their codes, the activations of a tile's tokens and the sums share the L1 cache.
inline constexpr int32_t kScaledBlocksMax = 16;

/// Rows at once: two panels.
inline constexpr int kScaledRows = 2 * kPanelLanes;

/// Codes of a block of kScaledRows rows, unpacked, and their scales.
template <class V, Int8Shape kShape>
struct alignas(64) ScaledBlock {
  static constexpr int kRows = kScaledRows;
  static constexpr int kParts = kShape.halves ? 2 : 1;
  static constexpr int kVectors = kRows / V::kLanes;

  uint8_t codes[8][kRows][4];
  float factors[kParts][kInt8Mantissas][kRows];  ///< scales times the mantissas
  alignas(64) float minima[kShape.minima == Int8Shape::kNone ? 1 : kRows];

  /// Whether all scales are ordinary.
  template <class Source>
  bool fill(const Source& from) {
    bool ordinary = true;
    for (int v = 0; v < kVectors; ++v) {
      const int row = v * V::kLanes;
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) V::store(codes[k][row], from.group(k, v));
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
#pragma GCC unroll 4
    for (int m = 0; m < kInt8Mantissas; ++m) {
      const auto mantissa = V::set(1 + m * (1.0f / kInt8Mantissas));
      V::store(factors[part][m] + v * V::kLanes, V::multiply(scales, mantissa));
    }
    return V::ordinary(scales);
  }
};

/// What a tile wants to know of a token's blocks, kBlocks at most, besides their values. A block's scales times one
/// mantissa are kRows floats, and those times the next one follow.
template <class V, Int8Shape kShape, int64_t kBlocks, int kRows>
struct alignas(64) ScaledToken {
  static constexpr int kParts = ScaledBlock<V, kShape>::kParts;

  int32_t starts[kBlocks * kParts];  ///< of integer sums: the bits of `ones`, and what codes are offset by
  float ones[kBlocks];               ///< V::counting of the scales
  int32_t factors[kBlocks];          ///< where a block has its scales times the mantissa, in bytes

  /// Of `count` blocks, the first at `at` of the row. Whether all scales are ordinary.
  bool fill(const std::byte* row, const Places& at, int64_t count) {
    static_assert(kBlocks % V::kLanes == 0);
    bool ordinary = true;
    for (int64_t b = 0; b < count; b += V::kLanes) ordinary &= fill_vector(row, at, b, count - b);
    return ordinary;
  }

 private:
  bool fill_vector(const std::byte* row, const Places& at, int64_t b, int64_t count) {
    const auto scales = V::load_up_to(row + at.scales + b * 4, count);
    const auto counting = V::counting(scales);
    V::store(ones + b, V::as_float(counting));
    V::store(factors + b, V::template mantissas<kInt8Mantissas>(scales, sizeof(float) * kRows));
    const std::byte* offsets = row + (kParts == 2 ? at.offsets32 : at.offsets8) + b * 4 * kParts;
#pragma GCC unroll 2
    for (int i = 0; i < kParts; ++i) {
      int32_t* to = starts + b * kParts + i * V::kLanes;
      const auto begin = kParts == 2 ? V::twice(counting, i) : counting;
      if constexpr (kShape.offset == 0) {
        V::store(to, begin);
      } else {
        const auto some = V::load_up_to(offsets + i * sizeof(begin), count * kParts - i * V::kLanes);
        V::store(to, V::add(begin, starts_of<V, kShape.offset, kParts>(some)));
      }
    }
    return V::ordinary(V::as_float(scales));
  }
};

}  // namespace
}  // namespace cairn::cpu
