/// Blocks of a panel (panel.h) as vectors of weights, written once over an ISA's Int8Vector (see matmul_int8_body.h).
/// Two sources of the same interface: PanelBlocks takes a body's bits apart when asked, UnpackedBlocks has had it done
/// for a few blocks that many tokens meet, and knows of the type only its arithmetic. They are passed by value: what
/// they point to moves on with next().
///
/// A block is 32 columns of kPanelRows rows, V::kLanes rows a vector. `group<plane>(k, v)` are the codes of columns 4k
/// to 4k+3 of vector v's rows, unsigned bytes. Where int16 sums of V would not hold the products of 16 columns, they
/// are in two planes, their low and their high four bits; or, if they have factors, without their offset, signed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_type.h"
#include "kernels/cpu/panel_scales.h"

namespace cairn::cpu {
namespace {

template <class V, Int8Shape kShape>
constexpr bool kSignedCodes = V::kInt16Sums && kShape.factors && !kShape.half_fits();
template <class V, Int8Shape kShape>
constexpr int kPlanes = V::kInt16Sums && !kShape.half_fits() && !kSignedCodes<V, kShape> ? 2 : 1;

template <class V, Int8Type kType>
class PanelBlocks {
 public:
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr Int8Shape kShape = kTraits.shape;
  using I = typename V::I;
  using F = typename V::F;
  using Scales = PanelScales<V, kType>;

  /// From block `begin` on, whose scales are the first ones of `scales`. The codebook is not looked at if the type has
  /// none.
  PanelBlocks(const std::byte* panel, int64_t cols, int64_t begin, const Scales& scales, const Codebook& codebook)
      : body_(panel + kFormat.body_begin(cols) + begin * kFormat.body_bytes()),
        head_(panel + begin * kFormat.head_bytes()),
        scales_(scales.scales),
        minima_(scales.minima),
        factors_(scales.factors),
        minimum_pairs_(scales.minimum_pairs) {
    if constexpr (kTraits.codebook) {
      constexpr bool kTwo = kPlanes<V, kShape> == 2;
      constexpr int32_t kOffset = kSignedCodes<V, kShape> ? 0 : kShape.offset;
      codes_[0] = V::table(code_table(codebook, kOffset, 0, kTwo ? 15 : 255));
      codes_[1] = kTwo ? V::table(code_table(codebook, kOffset, 4, 15)) : codes_[0];
    }
  }

  void next() {
    body_ += kFormat.body_bytes();
    if constexpr (Scales::kUnpacked) {
      ++scales_, ++minima_, ++factors_, ++minimum_pairs_;
    } else {
      head_ += kFormat.head_bytes();
    }
  }

  /// Asks for what comes later: the processor's own prefetchers do not run far enough ahead. Reading beyond the panel,
  /// or the matrix, is only asked for.
  void prefetch() const {
    const auto from = reinterpret_cast<uintptr_t>(body_) + kPrefetchBytes;
    for (int i = 0; i < kFormat.body_dwords; ++i) __builtin_prefetch(reinterpret_cast<const void*>(from + 64 * i));
  }

  template <int kPlane>
  I group(int k, int v) const {
    if constexpr (kTraits.codebook) {
      return V::look_up(codes_[kPlane], nibbles(k, v));
    } else if constexpr (kTraits.bits == 8) {
      return V::template eight_bits<kPlane>(dword(k, v));
    } else if constexpr (kTraits.bits == 4) {
      return nibbles(k, v);
    } else if constexpr (kTraits.bits == 5) {
      return V::either(nibbles(k, v), V::masked(V::shift(dword(4, v), 4 - k), 16));
    } else if constexpr (kTraits.bits == 6) {
      return V::either(nibbles(k, v), V::masked(V::shift(dword(4 + k / 4, v), 4 - k % 4 * 2), 48));
    } else {
      const I low = V::masked(V::shift(dword(k / 4, v), -(k % 4 * 2)), 3);
      if constexpr (kTraits.bits == 2) return low;
      return V::either(low, V::masked(V::shift(dword(2, v), 2 - k), 4));
    }
  }

  F scale(int v) const {
    const std::byte* half = head_ + 2 * v * V::kLanes;
    if constexpr (kTraits.scale == ScaleKind::kUnpacked) return V::load_floats((*scales_) + v * V::kLanes);
    if constexpr (kTraits.scale == ScaleKind::kUpper) return V::load_uppers(half);
    return V::load_halves(half);
  }
  F minimum(int v) const {
    if constexpr (Scales::kUnpacked) return V::load_floats((*minima_) + v * V::kLanes);
    // The file's is to be added.
    return V::multiply(V::load_halves(head_ + kPanelHalf + 2 * v * V::kLanes), V::set(-1));
  }
  I factor(int half, int v) const { return V::load((*factors_)[half] + v * V::kLanes); }
  I minimum_pair(int half, int v) const { return V::load((*minimum_pairs_)[half] + v * V::kLanes); }

 private:
  static constexpr PanelFormat kFormat = kTraits.format;
  static constexpr uintptr_t kPrefetchBytes = 2048;

  I dword(int i, int v) const { return V::load(body_ + i * kPanelDword + 4 * v * V::kLanes); }
  I nibbles(int k, int v) const { return V::masked(k < 4 ? dword(k, v) : V::shift(dword(k - 4, v), -4), 15); }

  const std::byte* body_;
  const std::byte* head_;
  const float (*scales_)[kPanelLanes];
  const float (*minima_)[kPanelLanes];
  const int32_t (*factors_)[2][kPanelLanes];
  const int32_t (*minimum_pairs_)[2][kPanelLanes];
  I codes_[2];
};

/// A block with everything ready. What a shape does not need has no room.
template <class V, Int8Shape kShape>
struct alignas(64) UnpackedBlock {
  static constexpr bool kMinima = kShape.minima != Int8Shape::kNone;
  static constexpr bool kMinimumPairs = kShape.minima == Int8Shape::kInteger;

  uint8_t codes[kPlanes<V, kShape>][8][kPanelLanes][4];
  alignas(64) float scales[kPanelLanes];
  alignas(64) float minima[kMinima ? kPanelLanes : 1];
  alignas(64) int32_t factors[2][kShape.factors ? kPanelLanes : 1];
  alignas(64) int32_t minimum_pairs[2][kMinimumPairs ? kPanelLanes : 1];

  template <Int8Type kType>
  void fill(const PanelBlocks<V, kType>& from) {
    for (int row = 0, v = 0; row < kPanelLanes; row += V::kLanes, ++v) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        V::store(codes[0][k][row], from.template group<0>(k, v));
        if constexpr (kPlanes<V, kShape> == 2) V::store(codes[1][k][row], from.template group<1>(k, v));
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
  using I = typename V::I;
  using F = typename V::F;

  explicit UnpackedBlocks(const UnpackedBlock<V, kShape>* blocks) : block_(blocks) {}

  void next() { ++block_; }
  void prefetch() const {}
  template <int kPlane>
  I group(int k, int v) const {
    return V::load(block_->codes[kPlane][k][v * V::kLanes]);
  }
  F scale(int v) const { return V::load_floats(block_->scales + v * V::kLanes); }
  F minimum(int v) const { return V::load_floats(block_->minima + v * V::kLanes); }
  I factor(int half, int v) const { return V::load(block_->factors[half] + v * V::kLanes); }
  I minimum_pair(int half, int v) const { return V::load(block_->minimum_pairs[half] + v * V::kLanes); }

 private:
  const UnpackedBlock<V, kShape>* block_;
};

}  // namespace
}  // namespace cairn::cpu
