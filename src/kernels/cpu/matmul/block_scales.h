/// Sources of scales for PanelBlocks (matmul_panel.h), written once over an ISA's Int8Vector (see matmul_int8_body.h):
/// each gives the vectors `v` of scales of one block's rows; next() moves to the next block, and begin_section() comes
/// before the first block of each section. They are passed by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/packed/panel_scales.h"

namespace cairn::kernels::cpu {
namespace {

/// Scales of types with a head for each 32 columns, read from the head when needed.
template <class V, Int8Type kType>
class HeadScales {
 public:
  using F = typename V::F;

  void begin_section(const std::byte* heads) { head_ = heads; }
  void next() { head_ += kTraits.format.head_bytes(); }
  F scale(int v) const {
    const std::byte* half = head_ + 2 * v * V::kLanes;
    if constexpr (kTraits.scale == ScaleKind::kUpper) return V::load_uppers(half);
    if constexpr (kTraits.scale == ScaleKind::kEighth) return V::multiply(V::load_halves(half), V::set(0.125f));
    return V::load_halves(half);
  }
  /// The scale of one half of the block.
  F half_scale(int half, int v) const { return V::load_halves(head_ + half * kPanelHalf + 2 * v * V::kLanes); }
  /// The minimum, which is to be subtracted; the file's is to be added, hence the sign.
  F minimum(int v) const { return V::multiply(V::load_halves(head_ + kPanelHalf + 2 * v * V::kLanes), V::set(-1)); }

 private:
  static constexpr Int8Traits kTraits = int8_traits(kType);

  const std::byte* head_ = nullptr;
};

/// The scales of HeadScales for vectors that hold all rows of a panel, loaded at the beginning of a section; used for
/// few tokens. Those products are bound by memory, and hardware prefetchers that see the lines of the heads again with
/// every block lose the stream (Zen 4: Q8_0 25 instead of 29 GB/s).
template <class V, Int8Type kType>
class HeldScales {
 public:
  using F = typename V::F;

  void begin_section(const std::byte* heads) {
    HeadScales<V, kType> from;
    from.begin_section(heads);
#pragma GCC unroll 8
    for (int b = 0; b < kPanelSectionBlocks; ++b, from.next()) {
      if constexpr (kShape.halves) {
        for (int half = 0; half < 2; ++half) scales_[b][half] = from.half_scale(half, 0);
      } else {
        scales_[b][0] = from.scale(0);
      }
      if constexpr (kMinima) minima_[b] = from.minimum(0);
    }
    block_ = 0;
  }
  void next() { ++block_; }
  F scale(int /*v*/) const { return scales_[block_][0]; }
  F half_scale(int half, int /*v*/) const { return scales_[block_][half]; }
  F minimum(int /*v*/) const { return minima_[block_]; }

 private:
  static_assert(V::kLanes == kPanelLanes);
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;
  static constexpr bool kMinima = kShape.minima != Int8Shape::kNone;

  F scales_[kPanelSectionBlocks][kShape.halves ? 2 : 1];
  F minima_[kMinima ? kPanelSectionBlocks : 1];
  int block_ = 0;  // index in the section
};

/// Scales of a chunk that were unpacked before, for blocks that several tiles read.
template <class V, Int8Type kType>
class ChunkScales {
 public:
  using I = typename V::I;
  using F = typename V::F;

  explicit ChunkScales(const PanelScales<V, kType>& scales)
      : scales_(scales.scales),
        half_scales_(scales.half_scales),
        minima_(scales.minima),
        factors_(scales.factors),
        minimum_pairs_(scales.minimum_pairs) {}

  void begin_section(const std::byte* /*heads*/) {}
  void next() { ++scales_, ++half_scales_, ++minima_, ++factors_, ++minimum_pairs_; }
  F scale(int v) const { return V::load_floats(*scales_ + v * V::kLanes); }
  F half_scale(int half, int v) const { return V::load_floats((*half_scales_)[half] + v * V::kLanes); }
  F minimum(int v) const { return V::load_floats(*minima_ + v * V::kLanes); }
  I factor(int half, int v) const { return V::load((*factors_)[half] + v * V::kLanes); }
  I minimum_pair(int half, int v) const { return V::load((*minimum_pairs_)[half] + v * V::kLanes); }

 private:
  const float (*scales_)[kPanelLanes];
  const float (*half_scales_)[2][kPanelLanes];
  const float (*minima_)[kPanelLanes];
  const int32_t (*factors_)[2][kPanelLanes];
  const int32_t (*minimum_pairs_)[2][kPanelLanes];
};

/// Scales of types with a head for 256 columns, computed from it when needed, for blocks that are read only once or
/// twice.
template <class V, Int8Type kType>
class ScalesInOrder {
 public:
  using I = typename V::I;
  using F = typename V::F;

  /// `multiplier` is the codebook's, or 1.
  explicit ScalesInOrder(float multiplier) : multiplier_(multiplier) {}

  void begin_section(const std::byte* heads) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sections_[v] = SectionScales<V, kType>(heads, v * V::kLanes, multiplier_);
    block_ = 0;
  }
  void next() { ++block_; }
  F scale(int v) const { return sections_[v].scale(block_); }
  F half_scale(int half, int v) const { return sections_[v].half_scale(block_, half); }
  F minimum(int v) const { return sections_[v].minimum(block_); }
  I factor(int half, int v) const { return sections_[v].factor(block_, half); }
  I minimum_pair(int half, int v) const { return sections_[v].minimum_pair(block_, half); }

 private:
  static constexpr int kVectors = kPanelLanes / V::kLanes;

  float multiplier_;
  int block_ = 0;  // index in the section
  SectionScales<V, kType> sections_[kVectors];
};

}  // namespace
}  // namespace cairn::kernels::cpu
