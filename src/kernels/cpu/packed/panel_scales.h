/// Scales from a panel's heads (panel.h) as vectors, written once over an ISA's Int8Vector (see matmul_int8_body.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_type.h"

namespace cairn::kernels::cpu {
namespace {

constexpr int kPanelLanes = static_cast<int>(kPanelRows);
/// Blocks whose scales are unpacked at once, a multiple of kPanelSectionBlocks.
constexpr int32_t kChunkBlocks = 64;

/// The shape of a type for V. If V::kFloatFactors, integer factors are multiplied with the scales beforehand, which
/// gives a scale for each half block instead.
template <class V, Int8Type kType>
constexpr Int8Shape kShapeOf = [] {
  Int8Shape shape = int8_traits(kType).shape;
  if (V::kFloatFactors && shape.factors && shape.minima == Int8Shape::kNone) {
    shape.factors = false;
    shape.halves = true;
  }
  return shape;
}();

/// Scales of a section (panel.h) with a head for 256 columns, for V::kLanes rows of its panel. Blocks are counted from
/// the section's first one. Only functions for parts that the type has may be called.
template <class V, Int8Type kType>
class SectionScales {
 public:
  using I = typename V::I;
  using F = typename V::F;
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;

  SectionScales() = default;
  /// Loads the head for rows [row, row + V::kLanes). `multiplier` is the codebook's, or 1.
  SectionScales(const std::byte* head, int row, float multiplier) {
    const std::byte* dwords = head + kTraits.format.head_halves * kPanelHalf + 4 * row;
#pragma GCC unroll 8
    for (int i = 0; i < kTraits.format.head_dwords; ++i) dwords_[i] = V::load(dwords + i * kPanelDword);
    if constexpr (kPackedMinima) {
      d_ = V::low_halves(dword(0));
      dmin_ = V::low_halves(V::template shift_dwords_right<16>(dword(0)));
    } else if constexpr (kType == Int8Type::kQ2_K) {
      d_ = V::low_halves(dword(4));
      // The sums of minimum pairs are of -32 times the activations (int8_row.h).
      dmin_ = V::multiply(V::low_halves(V::template shift_dwords_right<16>(dword(4))), V::set(-1.0f / 32));
    } else {
      d_ = V::load_halves(head + 2 * row);
      if constexpr (kTraits.codebook) d_ = V::multiply(d_, V::set(multiplier));
    }
  }

  F scale(int block) const {
    if constexpr (kPackedMinima) return V::multiply(d_, V::to_float(V::byte(scales(block / 4), block % 4)));
    if constexpr (kType == Int8Type::kIQ4_XS) {
      return V::multiply(d_, V::to_float(V::signed_byte(dword(block / 4), block % 4)));
    }
    return d_;
  }
  F half_scale(int block, int half) const {
    return V::multiply(d_, V::to_float(V::signed_byte(dword(block / 2), block % 2 * 2 + half)));
  }
  /// The minimum to subtract per column, or the factor on the sums of the minimum pairs.
  F minimum(int block) const {
    if constexpr (kPackedMinima) return V::multiply(dmin_, V::to_float(V::byte(minima(block / 4), block % 4)));
    return dmin_;
  }
  /// The factor of 16 columns, in the form of V::factor.
  I factor(int block, int half) const {
    const I bytes = dword(block / 2);
    // A byte of Q2_K is a factor and a minimum of four bits each.
    return V::factor(kType == Int8Type::kQ2_K ? V::masked(bytes, 15) : bytes, block % 2 * 2 + half);
  }
  /// The minimum of 16 columns, in both int16 lanes of a dword.
  I minimum_pair(int block, int half) const {
    return V::pair(V::masked(V::template shift_right<4>(dword(block / 2)), 15), block % 2 * 2 + half);
  }

 private:
  /// Whether the head is d and dmin, followed by three dwords of packed scales (see k4_scale_min).
  static constexpr bool kPackedMinima = kType == Int8Type::kQ4_K || kType == Int8Type::kQ5_K;

  I dword(int i) const { return dwords_[i]; }
  /// The scales of four blocks, a byte each.
  I scales(int half) const {
    if (half == 0) return V::masked(dword(1), 63);
    return V::either(V::masked(dword(3), 15), V::masked(V::template shift_right<2>(dword(1)), 48));
  }
  I minima(int half) const {
    if (half == 0) return V::masked(dword(2), 63);
    return V::either(V::masked(V::template shift_right<4>(dword(3)), 15),
                     V::masked(V::template shift_right<2>(dword(2)), 48));
  }

  I dwords_[kTraits.format.head_dwords];
  F d_;
  F dmin_;
};

/// Unpacked scales of a chunk of blocks. Parts that a type does not need take no room.
template <class V, Int8Type kType>
struct PanelScales {
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr bool kUnpacked = kTraits.scale == ScaleKind::kSection;
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;
  static constexpr bool kMinima = kUnpacked && kShape.minima != Int8Shape::kNone;
  static constexpr bool kMinimumPairs = kUnpacked && kShape.minima == Int8Shape::kInteger;
  static constexpr bool kHalves = kUnpacked && kShape.halves;

  alignas(64) float scales[kUnpacked && !kHalves ? kChunkBlocks : 1][kPanelLanes];
  alignas(64) float half_scales[kHalves ? kChunkBlocks : 1][2][kPanelLanes];
  alignas(64) float minima[kMinima ? kChunkBlocks : 1][kPanelLanes];
  alignas(64) int32_t factors[kShape.factors ? kChunkBlocks : 1][2][kPanelLanes];
  alignas(64) int32_t minimum_pairs[kMinimumPairs ? kChunkBlocks : 1][2][kPanelLanes];

  /// Unpacks `count` blocks, a multiple of kPanelSectionBlocks, from the section at `head` on. `multiplier` is the
  /// codebook's, or 1.
  void unpack(const std::byte* head, int64_t count, float multiplier) {
    for (int64_t b = 0; b < count; b += kPanelSectionBlocks, head += kTraits.format.section_bytes()) {
      for (int row = 0; row < kPanelLanes; row += V::kLanes) {
        const SectionScales<V, kType> section(head, row, multiplier);
#pragma GCC unroll 8
        for (int i = 0; i < kPanelSectionBlocks; ++i) {
          if constexpr (!kHalves) V::store(scales[b + i] + row, section.scale(i));
          if constexpr (kMinima) V::store(minima[b + i] + row, section.minimum(i));
          for (int half = 0; half < 2; ++half) {
            if constexpr (kHalves) V::store(half_scales[b + i][half] + row, section.half_scale(i, half));
            if constexpr (kShape.factors) V::store(factors[b + i][half] + row, section.factor(i, half));
            if constexpr (kMinimumPairs) V::store(minimum_pairs[b + i][half] + row, section.minimum_pair(i, half));
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace cairn::kernels::cpu
