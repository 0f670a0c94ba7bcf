/// Blocks of a panel (panel.h) as vectors of weights, written once over an ISA's Int8Vector (see matmul_int8_body.h).
/// Two sources of the same interface: PanelBlocks takes a body's bits apart when asked, UnpackedBlocks has had it done
/// for a few blocks that many tokens meet. They are passed by value: what they point to moves on with next().
///
/// A block is 32 columns of kPanelRows rows, V::kLanes rows a vector. `group<plane>(k, v)` are the codes of columns 4k
/// to 4k+3 of vector v's rows, unsigned bytes: in one plane, or, where V cannot multiply bytes of eight bits, their low
/// and their high four bits in two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_type.h"
#include "kernels/cpu/panel_scales.h"

namespace cairn::cpu {
namespace {

template <class V, Int8Type kType>
constexpr int kPlanes = int8_traits(kType).offset == 128 && !V::kEightBits ? 2 : 1;

template <class V, Int8Type kType>
class PanelBlocks {
 public:
  using I = typename V::I;
  using F = typename V::F;
  using Scales = PanelScales<V, kType>;

  /// From block `begin` on, whose scales are the first ones of `scales`.
  PanelBlocks(const std::byte* panel, int64_t cols, int64_t begin, const Scales& scales)
      : body_(panel + kFormat.body_begin(cols) + begin * kFormat.body_bytes()),
        head_(panel + begin * kFormat.head_bytes()),
        scales_(scales.scales),
        minima_(scales.minima),
        factors_(scales.factors),
        minimum_pairs_(scales.minimum_pairs) {}

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
    if constexpr (kTraits.codebook != nullptr) {
      return V::template code<kType, kPlane>(nibbles(k, v));
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
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr PanelFormat kFormat = kTraits.format;
  static constexpr uintptr_t kPrefetchBytes = 6144;

  I dword(int i, int v) const { return V::load(body_ + i * kPanelDword + 4 * v * V::kLanes); }
  I nibbles(int k, int v) const { return V::masked(k < 4 ? dword(k, v) : V::shift(dword(k - 4, v), -4), 15); }

  const std::byte* body_;
  const std::byte* head_;
  const float (*scales_)[kPanelLanes];
  const float (*minima_)[kPanelLanes];
  const int32_t (*factors_)[2][kPanelLanes];
  const int32_t (*minimum_pairs_)[2][kPanelLanes];
};

/// The codes of a block.
template <class V, Int8Type kType>
struct alignas(64) UnpackedBlock {
  uint8_t codes[kPlanes<V, kType>][8][kPanelLanes][4];

  void fill(const PanelBlocks<V, kType>& from) {
    for (int row = 0, v = 0; row < kPanelLanes; row += V::kLanes, ++v) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        V::store(codes[0][k][row], from.template group<0>(k, v));
        if constexpr (kPlanes<V, kType> == 2) V::store(codes[1][k][row], from.template group<1>(k, v));
      }
    }
  }
};

template <class V, Int8Type kType>
class UnpackedBlocks {
 public:
  using I = typename V::I;
  using F = typename V::F;

  /// `blocks` are those of the panel from where `panel` stands.
  UnpackedBlocks(const UnpackedBlock<V, kType>* blocks, const PanelBlocks<V, kType>& panel)
      : block_(blocks), panel_(panel) {}

  void next() {
    ++block_;
    panel_.next();
  }
  void prefetch() const {}
  template <int kPlane>
  I group(int k, int v) const {
    return V::load(block_->codes[kPlane][k][v * V::kLanes]);
  }
  F scale(int v) const { return panel_.scale(v); }
  F minimum(int v) const { return panel_.minimum(v); }
  I factor(int half, int v) const { return panel_.factor(half, v); }
  I minimum_pair(int half, int v) const { return panel_.minimum_pair(half, v); }

 private:
  const UnpackedBlock<V, kType>* block_;
  PanelBlocks<V, kType> panel_;
};

}  // namespace
}  // namespace cairn::cpu
