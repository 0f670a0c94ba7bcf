/// Blocks of panels unpacked for many tokens: a source like PanelBlocks (matmul_panel.h) that depends on the type's
/// arithmetic only.
#pragma once

#include <cstdint>

#include "kernels/cpu/matmul/matmul_panel.h"

namespace cairn::kernels::cpu {
namespace {

/// An unpacked block of a panel: groups of codes or, if V uses those, pairs. Parts that a shape does not need take no
/// room.
template <class V, Int8Shape kShape>
struct alignas(64) UnpackedBlock {
  static constexpr int kRows = kPanelLanes;
  static constexpr bool kPairs = kSumsPairs<V, kShape>;
  static constexpr bool kMinima = kShape.minima != Int8Shape::kNone;
  static constexpr bool kMinimumPairs = kShape.minima == Int8Shape::kInteger;

  uint8_t codes[kPairs ? 16 : 8][kRows][4];
  alignas(64) float scales[kRows];
  alignas(64) float minima[kMinima ? kRows : 1];
  alignas(64) int32_t factors[2][kShape.factors ? kRows : 1];
  alignas(64) int32_t minimum_pairs[2][kMinimumPairs ? kRows : 1];

  template <class Source>
  void fill(const Source& from) {
    for (int row = 0, v = 0; row < kRows; row += V::kLanes, ++v) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        if constexpr (kPairs) {
          for (int i = 0; i < 2; ++i) V::store(codes[2 * k + i][row], from.pairs(k, i, v));
        } else {
          V::store(codes[k][row], from.group(k, v));
        }
      }
      V::store(scales + row, from.scale(v));
      if constexpr (kMinima) V::store(minima + row, from.minimum(v));
      for (int half = 0; half < 2; ++half) {
        if constexpr (kShape.factors) V::store(factors[half] + row, from.factor(half, v));
        if constexpr (kMinimumPairs) V::store(minimum_pairs[half] + row, from.minimum_pair(half, v));
      }
    }
  }
};

template <class V, Int8Shape kOfShape>
class UnpackedBlocks {
 public:
  static constexpr Int8Shape kShape = kOfShape;
  static constexpr int kVectors = kPanelLanes / V::kLanes;
  static constexpr bool kGroupsAtOnce = false;
  static constexpr bool kFew = false;
  static constexpr bool kUnpacked = true;
  using I = typename V::I;
  using F = typename V::F;

  explicit UnpackedBlocks(const UnpackedBlock<V, kShape>* blocks) : block_(blocks) {}

  void begin_section() {}
  void next() { ++block_; }
  void prefetch() const {}
  I group(int k, int v) const { return V::load(block_->codes[k][v * V::kLanes]); }
  I pairs(int k, int i, int v) const { return V::load(block_->codes[2 * k + i][v * V::kLanes]); }
  F scale(int v) const { return V::load_floats(block_->scales + v * V::kLanes); }
  F minimum(int v) const { return V::load_floats(block_->minima + v * V::kLanes); }
  I factor(int half, int v) const { return V::load(block_->factors[half] + v * V::kLanes); }
  I minimum_pair(int half, int v) const { return V::load(block_->minimum_pairs[half] + v * V::kLanes); }

 private:
  const UnpackedBlock<V, kShape>* block_;
};

}  // namespace
}  // namespace cairn::kernels::cpu
