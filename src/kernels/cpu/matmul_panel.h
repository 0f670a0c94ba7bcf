/// Blocks of a panel (panel.h) as vectors of weights, written once over an ISA's Int8Vector (see matmul_int8_body.h).
/// Sources of the same interface: PanelBlocks takes a body's bits apart when asked, PanelPair is two of them, and
/// UnpackedBlocks (unpacked_blocks.h) has had it done for a few blocks that many tokens meet. They are passed by value:
/// what they point to moves on with next().
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
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;
  static constexpr int kVectors = kPanelLanes / V::kLanes;
  using I = typename V::I;
  using F = typename V::F;
  using Scales = PanelScales<V, kType>;

  /// From block `begin` on, which begins a section and whose scales are the first ones of `scales`; memory is asked for
  /// `ahead` bytes before it is read. The codebook is not looked at if the type has none.
  PanelBlocks(const std::byte* panel, int64_t begin, const Scales& scales, const Codebook& codebook, int64_t ahead)
      : head_(panel + begin / kPanelSectionBlocks * kFormat.section_bytes()),
        body_(head_ + kFormat.section_heads_bytes()),
        asked_(reinterpret_cast<uintptr_t>(head_) + static_cast<uintptr_t>(ahead)),
        scales_(scales.scales),
        half_scales_(scales.half_scales),
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
    asked_ += kBlockBytes;
    const bool section_ends = ++block_ % kPanelSectionBlocks == 0;
    if (section_ends) body_ += kFormat.section_heads_bytes();
    if constexpr (Scales::kUnpacked) {
      ++scales_, ++half_scales_, ++minima_, ++factors_, ++minimum_pairs_;
    } else {
      head_ += kFormat.head_bytes();
      if (section_ends)
        head_ += kFormat.section_bytes() - kPanelSectionCols / kFormat.block_cols * kFormat.head_bytes();
    }
  }

  /// Asks for what comes later, as many bytes for each block as a panel has for it, in the order of memory. For the L2
  /// cache: what waits for DRAM holds one of the few places that the L1 cache has for lines on their way. Reading
  /// beyond the matrix is only asked for.
  void prefetch() const {
    for (uintptr_t i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(asked_ + i), 0, 2);
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
    } else if constexpr (kTraits.bits == 1) {
      return V::masked(V::shift(dword(0, v), 4 - k), 16);
    } else if constexpr (kTraits.scale == ScaleKind::kEighth) {
      return V::masked(V::shift(dword(k / 4, v), 3 - k % 4 * 2), 24);
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
    if constexpr (kTraits.scale == ScaleKind::kEighth) return V::multiply(V::load_halves(half), V::set(0.125f));
    return V::load_halves(half);
  }
  /// Of the columns of one half of the block.
  F half_scale(int half, int v) const {
    if constexpr (Scales::kHalves) return V::load_floats((*half_scales_)[half] + v * V::kLanes);
    return V::load_halves(head_ + half * kPanelHalf + 2 * v * V::kLanes);
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
  /// Of 32 columns, their part of the heads included.
  static constexpr uintptr_t kBlockBytes = kFormat.section_bytes() / kPanelSectionBlocks;

  I dword(int i, int v) const { return V::load(body_ + i * kPanelDword + 4 * v * V::kLanes); }
  I nibbles(int k, int v) const { return V::masked(k < 4 ? dword(k, v) : V::shift(dword(k - 4, v), -4), 15); }

  const std::byte* head_;
  const std::byte* body_;
  int64_t block_ = 0;  // from the first one on
  uintptr_t asked_;
  const float (*scales_)[kPanelLanes];
  const float (*half_scales_)[2][kPanelLanes];
  const float (*minima_)[kPanelLanes];
  const int32_t (*factors_)[2][kPanelLanes];
  const int32_t (*minimum_pairs_)[2][kPanelLanes];
  I codes_[2];
};

/// Two panels as one source of both's rows.
template <class V, Int8Type kType>
class PanelPair {
 public:
  using One = PanelBlocks<V, kType>;
  static constexpr Int8Shape kShape = One::kShape;
  static constexpr int kVectors = 2 * One::kVectors;
  using I = typename V::I;
  using F = typename V::F;

  PanelPair(const One& first, const One& second) : first_(first), second_(second) {}

  void next() {
    first_.next();
    second_.next();
  }
  void prefetch() const {
    first_.prefetch();
    second_.prefetch();
  }
  template <int kPlane>
  I group(int k, int v) const {
    return of(v).template group<kPlane>(k, v % One::kVectors);
  }
  F scale(int v) const { return of(v).scale(v % One::kVectors); }
  F half_scale(int half, int v) const { return of(v).half_scale(half, v % One::kVectors); }
  F minimum(int v) const { return of(v).minimum(v % One::kVectors); }
  I factor(int half, int v) const { return of(v).factor(half, v % One::kVectors); }
  I minimum_pair(int half, int v) const { return of(v).minimum_pair(half, v % One::kVectors); }

 private:
  const One& of(int v) const { return v < One::kVectors ? first_ : second_; }

  One first_, second_;
};

}  // namespace
}  // namespace cairn::cpu
