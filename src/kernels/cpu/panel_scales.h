/// Scales of a panel's heads (panel.h) as vectors, written once over an ISA's Int8Vector (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_type.h"

namespace cairn::cpu {
namespace {

constexpr int kPanelLanes = static_cast<int>(kPanelRows);
/// Blocks whose scales are unpacked at once, a multiple of kPanelSectionBlocks.
constexpr int32_t kChunkBlocks = 64;

/// A type's arithmetic with V, whose kFloatFactors says whether integer factors are better multiplied with the scales
/// beforehand: what they then are is two scales.
template <class V, Int8Type kType>
constexpr Int8Shape kShapeOf = [] {
  Int8Shape shape = int8_traits(kType).shape;
  if (V::kFloatFactors && shape.factors && shape.minima == Int8Shape::kNone) {
    shape.factors = false;
    shape.halves = true;
  }
  return shape;
}();

/// Scales of a chunk of blocks, unpacked. What a type does not need has no room.
template <class V, Int8Type kType>
struct PanelScales {
  using I = typename V::I;
  using F = typename V::F;
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr bool kUnpacked = kTraits.scale == ScaleKind::kUnpacked;
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;
  static constexpr bool kMinima = kUnpacked && kShape.minima != Int8Shape::kNone;
  static constexpr bool kMinimumPairs = kShape.minima == Int8Shape::kInteger;
  static constexpr bool kHalves = kUnpacked && kShape.halves;

  alignas(64) float scales[kUnpacked && !kHalves ? kChunkBlocks : 1][kPanelLanes];
  alignas(64) float half_scales[kHalves ? kChunkBlocks : 1][2][kPanelLanes];
  /// What to subtract per column, or what to multiply the minimum pairs' sums with.
  alignas(64) float minima[kMinima ? kChunkBlocks : 1][kPanelLanes];
  /// Of 16 columns, as V::factor makes them.
  alignas(64) int32_t factors[kShape.factors ? kChunkBlocks : 1][2][kPanelLanes];
  /// Of 16 columns, both int16 lanes of a dword.
  alignas(64) int32_t minimum_pairs[kMinimumPairs ? kChunkBlocks : 1][2][kPanelLanes];

  /// `count` blocks, a multiple of kPanelSectionBlocks, from the section at `head` on. `multiplier` is the codebook's,
  /// or 1.
  void unpack(const std::byte* head, int64_t count, float multiplier) {
    for (int64_t b = 0; b < count; b += kPanelSectionBlocks, head += kTraits.format.section_bytes()) {
      for (int v = 0; v < kPanelLanes / V::kLanes; ++v) {
        const int row = v * V::kLanes;
        const std::byte* halves = head + 2 * row;
        const std::byte* dwords = head + kTraits.format.head_halves * kPanelHalf + 4 * row;
        if constexpr (kType == Int8Type::kQ4_K || kType == Int8Type::kQ5_K) {
          unpack_with_minima(dwords, b, row);
        } else if constexpr (kType == Int8Type::kQ2_K) {
          unpack_q2_k(dwords, b, row);
        } else if constexpr (kType == Int8Type::kIQ4_XS) {
          unpack_iq4_xs(V::load_halves(halves), dwords, b, row);
        } else {
          unpack_factors(V::multiply(V::load_halves(halves), V::set(multiplier)), dwords, b, row);
        }
      }
    }
  }

 private:
  static I dword(const std::byte* head, int i) { return V::load(head + i * kPanelDword); }

  // d and dmin, then three dwords of packed scales (see k4_scale_min).
  void unpack_with_minima(const std::byte* head, int64_t block, int row) {
    const F d = V::low_halves(dword(head, 0));
    const F dmin = V::low_halves(V::template shift_dwords_right<16>(dword(head, 0)));
    const I first = dword(head, 1), second = dword(head, 2), third = dword(head, 3);
    const I scales_of[2] = {V::masked(first, 63),
                            V::either(V::masked(third, 15), V::masked(V::template shift_right<2>(first), 48))};
    const I minima_of[2] = {V::masked(second, 63), V::either(V::masked(V::template shift_right<4>(third), 15),
                                                             V::masked(V::template shift_right<2>(second), 48))};
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      V::store(scales[block + i] + row, V::multiply(d, V::to_float(V::byte(scales_of[i / 4], i % 4))));
      V::store(minima[block + i] + row, V::multiply(dmin, V::to_float(V::byte(minima_of[i / 4], i % 4))));
    }
  }

  void unpack_factors(F d, const std::byte* head, int64_t block, int row) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      if constexpr (!kHalves) V::store(scales[block + i] + row, d);
      for (int j = 0; j < 2; ++j) {
        if constexpr (kHalves) {
          const F factor = V::to_float(V::signed_byte(dword(head, i / 2), i % 2 * 2 + j));
          V::store(half_scales[block + i][j] + row, V::multiply(d, factor));
        } else {
          V::store(factors[block + i][j] + row, V::factor(dword(head, i / 2), i % 2 * 2 + j));
        }
      }
    }
  }

  // A byte is a factor and a minimum of four bits each.
  void unpack_q2_k(const std::byte* head, int64_t block, int row) {
    const F d = V::low_halves(dword(head, 4));
    // The pairs' sums are of -32 times the activations (int8_row.h).
    const F dmin = V::multiply(V::low_halves(V::template shift_dwords_right<16>(dword(head, 4))), V::set(-1.0f / 32));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      V::store(scales[block + i] + row, d);
      V::store(minima[block + i] + row, dmin);
      for (int j = 0; j < 2; ++j) {
        const I both = dword(head, i / 2);
        V::store(factors[block + i][j] + row, V::factor(V::masked(both, 15), i % 2 * 2 + j));
        V::store(minimum_pairs[block + i][j] + row,
                 V::pair(V::masked(V::template shift_right<4>(both), 15), i % 2 * 2 + j));
      }
    }
  }

  void unpack_iq4_xs(F d, const std::byte* head, int64_t block, int row) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      V::store(scales[block + i] + row, V::multiply(d, V::to_float(V::signed_byte(dword(head, i / 4), i % 4))));
    }
  }
};

}  // namespace
}  // namespace cairn::cpu
