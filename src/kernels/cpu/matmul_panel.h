/// Blocks of a panel (panel.h) as vectors of weights, written once over an ISA's Int8Vector (see matmul_int8_body.h).
/// Two sources of the same interface: PanelBlocks takes a body's bits apart when asked, UnpackedBlocks has had it done
/// for a few blocks that many tokens meet. They are passed by value: what they point to moves on with next().
///
/// A block is 32 columns of kPanelRows rows, V::kLanes rows a vector. `group<plane>(k, v)` are columns 4k to 4k+3 of
/// vector v's rows, as V's products want them: unsigned bytes, in one or two planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel.h"

namespace cairn::cpu {
namespace {

enum class Int8Type { kQ8_0, kQ4_0, kQ4_K, kQ6_K };

constexpr PanelFormat panel_format_of(Int8Type type) {
  return type == Int8Type::kQ8_0   ? kPanelQ8_0
         : type == Int8Type::kQ4_0 ? kPanelQ4_0
         : type == Int8Type::kQ4_K ? kPanelQ4_K
                                   : kPanelQ6_K;
}

constexpr int kPanelLanes = static_cast<int>(kPanelRows);
/// Blocks whose scales are unpacked at once, a multiple of the 8 of a K format's block.
constexpr int32_t kChunkBlocks = 64;

/// Scales of a chunk of a K type's blocks, unpacked. Other types use the heads as they are.
template <class V, Int8Type kType>
struct PanelScales {
  using I = typename V::I;
  using F = typename V::F;
  static constexpr bool kQ4K = kType == Int8Type::kQ4_K, kQ6K = kType == Int8Type::kQ6_K, kK = kQ4K || kQ6K;

  alignas(64) float scales[kK ? kChunkBlocks : 1][kPanelLanes];
  alignas(64) float minima[kQ4K ? kChunkBlocks : 1][kPanelLanes];        // what to subtract per column
  alignas(64) int32_t factors[kQ6K ? kChunkBlocks : 1][2][kPanelLanes];  // of 16 columns, as V::factor makes them

  /// `count` blocks, a multiple of 8, from the heads at `head` on.
  void unpack(const std::byte* head, int64_t count) {
    for (int64_t b = 0; b < count; b += 8, head += panel_format_of(kType).head_bytes) {
      for (int v = 0; v < kPanelLanes / V::kLanes; ++v) {
        if constexpr (kQ4K) unpack_q4_k(head + 4 * v * V::kLanes, b, v * V::kLanes);
        if constexpr (kQ6K)
          unpack_q6_k(head + 4 * v * V::kLanes, head + 4 * kPanelDword + 2 * v * V::kLanes, b, v * V::kLanes);
      }
    }
  }

 private:
  // d and dmin, then three dwords of packed scales (see k4_scale_min).
  void unpack_q4_k(const std::byte* head, int64_t block, int row) {
    const auto dword = [head](int i) { return V::load(head + i * kPanelDword); };
    const F d = V::low_halves(dword(0)), dmin = V::low_halves(V::template shift_dwords_right<16>(dword(0)));
    const I first = dword(1), second = dword(2), third = dword(3);
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

  void unpack_q6_k(const std::byte* head, const std::byte* half, int64_t block, int row) {
    const F d = V::load_halves(half);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      V::store(scales[block + i] + row, d);
      for (int j = 0; j < 2; ++j) {
        V::store(factors[block + i][j] + row, V::factor(V::load(head + i / 2 * kPanelDword), i % 2 * 2 + j));
      }
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
        half_(panel + begin * kFormat.head_bytes),
        scales_(scales.scales),
        minima_(scales.minima),
        factors_(scales.factors) {}

  void next() {
    body_ += kFormat.body_bytes();
    half_ += kPanelHalf;
    ++scales_, ++minima_, ++factors_;
  }

  /// Asks for what comes later: the processor's own prefetchers do not run far enough ahead. Reading beyond the panel,
  /// or the matrix, is only asked for.
  void prefetch() const {
    const auto from = reinterpret_cast<uintptr_t>(body_) + kPrefetchBytes;
    for (int i = 0; i < kFormat.body_dwords; ++i) __builtin_prefetch(reinterpret_cast<const void*>(from + 64 * i));
  }

  template <int kPlane>
  I group(int k, int v) const {
    if constexpr (kType == Int8Type::kQ8_0) {
      return V::template q8_plane<kPlane>(dword(k, v));
    } else {
      const I low = V::masked(k < 4 ? dword(k, v) : V::template shift_right<4>(dword(k - 4, v)), 15);
      if constexpr (kType != Int8Type::kQ6_K) return low;
      const I pairs = dword(4 + k / 4, v);
      const I high = k % 4 == 0   ? V::template shift_left<4>(pairs)
                     : k % 4 == 1 ? V::template shift_left<2>(pairs)
                     : k % 4 == 2 ? pairs
                                  : V::template shift_right<2>(pairs);
      return V::either(low, V::masked(high, 48));
    }
  }

  F scale(int v) const {
    if constexpr (Scales::kK) return V::load_floats((*scales_) + v * V::kLanes);
    return V::load_halves(half_ + 2 * v * V::kLanes);
  }
  F minimum(int v) const { return V::load_floats((*minima_) + v * V::kLanes); }
  I factor(int half, int v) const { return V::load((*factors_)[half] + v * V::kLanes); }

 private:
  static constexpr PanelFormat kFormat = panel_format_of(kType);
  static constexpr uintptr_t kPrefetchBytes = 6144;

  I dword(int i, int v) const { return V::load(body_ + i * kPanelDword + 4 * v * V::kLanes); }

  const std::byte* body_;
  const std::byte* half_;
  const float (*scales_)[kPanelLanes];
  const float (*minima_)[kPanelLanes];
  const int32_t (*factors_)[2][kPanelLanes];
};

/// A block with everything ready. What a type does not need stays unset.
template <class V, Int8Type kType>
struct alignas(64) UnpackedBlock {
  static constexpr int kPlanes = kType == Int8Type::kQ8_0 ? V::kQ8Planes : 1;
  uint8_t values[kPlanes][8][kPanelLanes][4];
  alignas(64) float scales[kPanelLanes];
  alignas(64) int32_t factors[2][kType == Int8Type::kQ6_K ? kPanelLanes : 1];

  void fill(const PanelBlocks<V, kType>& from) {
    for (int row = 0, v = 0; row < kPanelLanes; row += V::kLanes, ++v) {
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        V::store(values[0][k][row], from.template group<0>(k, v));
        if constexpr (kPlanes == 2) V::store(values[1][k][row], from.template group<1>(k, v));
      }
      V::store(scales + row, from.scale(v));
      if constexpr (kType == Int8Type::kQ6_K) {
        for (int half = 0; half < 2; ++half) V::store(factors[half] + row, from.factor(half, v));
      }
    }
  }
};

template <class V, Int8Type kType>
class UnpackedBlocks {
 public:
  using I = typename V::I;
  using F = typename V::F;

  explicit UnpackedBlocks(const UnpackedBlock<V, kType>* block) : block_(block) {}

  void next() { ++block_; }
  void prefetch() const {}
  template <int kPlane>
  I group(int k, int v) const {
    return V::load(block_->values[kPlane][k][v * V::kLanes]);
  }
  F scale(int v) const { return V::load_floats(block_->scales + v * V::kLanes); }
  I factor(int half, int v) const { return V::load(block_->factors[half] + v * V::kLanes); }

 private:
  const UnpackedBlock<V, kType>* block_;
};

}  // namespace
}  // namespace cairn::cpu
