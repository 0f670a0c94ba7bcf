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

namespace cairn::cpu {
namespace {

constexpr int kPanelLanes = static_cast<int>(kPanelRows);
/// Blocks whose scales are unpacked at once, a multiple of the 8 of a K format's block.
constexpr int32_t kChunkBlocks = 64;

template <class V, Int8Type kType>
constexpr int kPlanes = int8_traits(kType).offset == 128 && !V::kEightBits ? 2 : 1;

/// Scales of a chunk of blocks, unpacked. What a type does not need has no room.
template <class V, Int8Type kType>
struct PanelScales {
  using I = typename V::I;
  using F = typename V::F;
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr bool kUnpacked = kTraits.scale == ScaleKind::kUnpacked;
  static constexpr bool kMinima = kUnpacked && (kTraits.minima || kTraits.minimum_pairs);

  alignas(64) float scales[kUnpacked ? kChunkBlocks : 1][kPanelLanes];
  /// What to subtract per column, or what to multiply the minimum pairs' sums with.
  alignas(64) float minima[kMinima ? kChunkBlocks : 1][kPanelLanes];
  /// Of 16 columns, as V::factor makes them.
  alignas(64) int32_t factors[kTraits.factors ? kChunkBlocks : 1][2][kPanelLanes];
  /// Of 16 columns, both int16 lanes of a dword.
  alignas(64) int32_t minimum_pairs[kTraits.minimum_pairs ? kChunkBlocks : 1][2][kPanelLanes];

  /// `count` blocks, a multiple of 8, from the heads at `head` on.
  void unpack(const std::byte* head, int64_t count) {
    for (int64_t b = 0; b < count; b += 8, head += kTraits.format.head_bytes()) {
      for (int v = 0; v < kPanelLanes / V::kLanes; ++v) {
        const int row = v * V::kLanes;
        const std::byte* dwords = head + kTraits.format.head_halves * kPanelHalf + 4 * row;
        if constexpr (kType == Int8Type::kQ4_K || kType == Int8Type::kQ5_K) unpack_with_minima(dwords, b, row);
        if constexpr (kType == Int8Type::kQ3_K || kType == Int8Type::kQ6_K) {
          unpack_factors(V::load_halves(head + 2 * row), dwords, b, row);
        }
        if constexpr (kType == Int8Type::kQ2_K) unpack_q2_k(dwords, b, row);
        if constexpr (kType == Int8Type::kIQ4_XS) unpack_iq4_xs(V::load_halves(head + 2 * row), dwords, b, row);
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
      V::store(scales[block + i] + row, d);
      for (int j = 0; j < 2; ++j) {
        V::store(factors[block + i][j] + row, V::factor(dword(head, i / 2), i % 2 * 2 + j));
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
