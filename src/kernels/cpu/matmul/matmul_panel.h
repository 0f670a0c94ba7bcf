/// Blocks of a panel (panel.h) as vectors of weights, written once over an ISA's Int8Vector (see matmul_int8_body.h).
/// Sources of the same interface: PanelBlocks unpacks a body's bits when asked, PanelPair is two of them, and
/// UnpackedBlocks (unpacked_blocks.h) holds a few blocks that were unpacked once for many tokens. They are passed by
/// value; next() moves them to the next block.
///
/// A block is 32 columns of kPanelRows rows, V::kLanes rows a vector. `group(k, v)` are the codes of columns 4k to 4k+3
/// of vector v's rows, unsigned bytes; or, where V adds products in int16 and such a sum would not hold those of 8
/// columns, signed ones without their offset. Where V adds products in int32 instead, `pairs(k, i, v)` are the same as
/// pairs of int16 (V::pairs).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/block_scales.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/matmul/matmul.h"

namespace cairn::kernels::cpu {
namespace {

/// Whether V multiplies codes of a shape as int16 and adds the products in int32: those for which the sum of four
/// columns does not fit into int16.
template <class V, Int8Shape kShape>
constexpr bool kSumsPairs = V::kInt16Sums && !kShape.factors && !kShape.half_fits() && !kShape.quarter_fits();

template <class V, Int8Shape kShape>
constexpr bool kSignedCodes = V::kInt16Sums && !kShape.half_fits();

/// A panel's blocks as a source. `Scales` is one of block_scales.h.
template <class V, Int8Type kType, class Scales, bool kOfFew>
class PanelBlocks {
 public:
  static constexpr bool kFew = kOfFew;
  static constexpr bool kUnpacked = false;
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr Int8Shape kShape = kShapeOf<V, kType>;
  static constexpr int kVectors = kPanelLanes / V::kLanes;
  /// Whether a tile of several tokens is multiplied token by token with all groups in registers, rather than group by
  /// group. Measured (Zen 5, eight tokens): Q4_0, Q6_K and Q8_0 are a tenth faster this way, Q5_0 a fifth slower.
  static constexpr bool kGroupsAtOnce = kTraits.bits != 5;
  using I = typename V::I;
  using F = typename V::F;

  /// Starts at the section at `section`, whose scales are the first ones of `scales`; memory is prefetched at the
  /// distance `ahead`. The codebook is ignored if the type has none.
  PanelBlocks(const std::byte* section, const Scales& scales, const Codebook& codebook, const PrefetchPolicy& ahead)
      : body_(section),
        asked_(reinterpret_cast<uintptr_t>(section) + static_cast<uintptr_t>(ahead.bytes)),
        to_(ahead.to),
        scales_(scales) {
    if constexpr (kTraits.codebook) {
      codes_ = V::table(code_table(codebook, kSignedCodes<V, kShape> ? 0 : kShape.offset));
    }
  }

  void begin_section() {
    scales_.begin_section(body_);
    body_ += kFormat.section_heads_bytes();
  }
  void next() {
    body_ += kFormat.body_bytes();
    asked_ += kBlockBytes;
    scales_.next();
  }

  /// Called before a block: prefetches what is read later, as many bytes for each block as a panel has per block, in
  /// the order of memory. A prefetch beyond the end of the matrix is harmless.
  void prefetch() const {
    if (to_ == PrefetchPolicy::kNowhere) return;
    // One address for all lines: the compiler would otherwise keep and advance one for each. Volatile, because g++ 12
    // drops calls of functions that only prefetch.
    uintptr_t at = asked_;
    asm volatile("" : "+r"(at));
    if (to_ == PrefetchPolicy::kL1) {
      for (uintptr_t i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(at + i));
    } else {
      for (uintptr_t i = 0; i < kBlockBytes; i += 64) __builtin_prefetch(reinterpret_cast<const void*>(at + i), 0, 2);
    }
  }

  I group(int k, int v) const {
    if constexpr (kTraits.codebook) {
      return V::look_up(codes_, nibbles(k, v));
    } else if constexpr (kTraits.bits == 8) {
      if constexpr (kSignedCodes<V, kShape>) return V::flip_signs(dword(k, v));
      return dword(k, v);
    } else if constexpr (kTraits.bits == 4) {
      return nibbles(k, v);
    } else if constexpr (kTraits.bits == 5) {
      return V::either(nibbles(k, v), V::masked(V::shift(dword(0, v), 4 - k), 16));
    } else if constexpr (kTraits.bits == 6) {
      return V::either(nibbles(k, v), V::masked(V::shift(dword(k / 4 * 5, v), 4 - k % 4 * 2), 48));
    } else if constexpr (kTraits.bits == 1) {
      return V::masked(V::shift(dword(0, v), 4 - k), 16);
    } else if constexpr (kTraits.scale == ScaleKind::kEighth) {
      return V::masked(V::shift(dword(k / 4, v), 3 - k % 4 * 2), 24);
    } else {
      constexpr int kFirst = kTraits.bits == 3 ? 1 : 0;
      const I low = V::masked(V::shift(dword(kFirst + k / 4, v), -(k % 4 * 2)), 3);
      if constexpr (kTraits.bits == 2) return low;
      return V::either(low, V::masked(V::shift(dword(0, v), 2 - k), 4));
    }
  }

  I pairs(int k, int i, int v) const { return V::pairs(group(k, v), i); }

  F scale(int v) const { return scales_.scale(v); }
  F half_scale(int half, int v) const { return scales_.half_scale(half, v); }
  F minimum(int v) const { return scales_.minimum(v); }
  I factor(int half, int v) const { return scales_.factor(half, v); }
  I minimum_pair(int half, int v) const { return scales_.minimum_pair(half, v); }

 private:
  static constexpr PanelFormat kFormat = kTraits.format;
  /// Bytes of 32 columns, including their part of the heads.
  static constexpr uintptr_t kBlockBytes = kFormat.section_bytes() / kPanelSectionBlocks;

  I dword(int i, int v) const { return V::load(body_ + i * kPanelDword + 4 * v * V::kLanes); }
  I nibbles(int k, int v) const {
    constexpr int kFirst = kTraits.bits == 5 || kTraits.bits == 6 ? 1 : 0;
    const I both = dword(kFirst + k % 4, v);
    return V::masked(k < 4 ? both : V::shift(both, -4), 15);
  }

  const std::byte* body_;
  uintptr_t asked_;
  PrefetchPolicy::To to_;
  Scales scales_;
  I codes_;
};

/// Calls function(b) for `count` blocks of a source that is at the first one's section. If unrolled, what a source
/// holds of a section can stay in registers.
template <bool kUnrolled = false, class Source, class Function>
[[gnu::always_inline]] inline void for_each_block(Source& source, int64_t count, const Function& function) {
  for (int64_t begin = 0; begin < count; begin += kPanelSectionBlocks) {
    const int64_t blocks = count - begin < kPanelSectionBlocks ? count - begin : kPanelSectionBlocks;
    source.begin_section();
    if constexpr (kUnrolled) {
#pragma GCC unroll 8
      for (int b = 0; b < kPanelSectionBlocks; ++b, source.next()) {
        if (b == blocks) break;
        function(begin + b);
      }
    } else {
      for (int64_t b = 0; b < blocks; ++b, source.next()) function(begin + b);
    }
  }
}

/// Two panels, each a PanelBlocks, as one source with the rows of both.
template <class One>
class PanelPair {
 public:
  static constexpr bool kFew = One::kFew;
  static constexpr bool kUnpacked = false;
  static constexpr bool kGroupsAtOnce = One::kGroupsAtOnce;
  static constexpr Int8Shape kShape = One::kShape;
  static constexpr int kVectors = 2 * One::kVectors;
  using I = typename One::I;
  using F = typename One::F;

  PanelPair(const One& first, const One& second) : first_(first), second_(second) {}

  void begin_section() {
    first_.begin_section();
    second_.begin_section();
  }
  void next() {
    first_.next();
    second_.next();
  }
  void prefetch() const {
    first_.prefetch();
    second_.prefetch();
  }
  I group(int k, int v) const { return of(v).group(k, v % One::kVectors); }
  I pairs(int k, int i, int v) const { return of(v).pairs(k, i, v % One::kVectors); }
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
}  // namespace cairn::kernels::cpu
