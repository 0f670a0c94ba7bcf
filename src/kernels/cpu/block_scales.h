/// Where PanelBlocks (matmul_panel.h) has the scales of its blocks from, written once over an ISA's Int8Vector (see
/// matmul_int8_body.h): vectors v of one block's rows, until next(). Passed by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/int8_type.h"
#include "kernels/cpu/panel_scales.h"

namespace cairn::cpu {
namespace {

/// Reads a byte of each line, from the first to the last: the processor's prefetchers follow a stream, but not the
/// order in which groups of columns want a body's lines (Zen 4: Q6_K 15 instead of 25 GB/s; Zen 5: Q4_0 20 instead of
/// 27, with four tokens 13 instead of 24).
inline void read_in_order(const std::byte* from, int64_t bytes) {
  asm("" : "+r"(from));
  // Into a general register: the compiler loads what is volatile into a mask, which the units of the products do.
  for (int64_t i = 0; i < bytes; i += 64) asm volatile("" : : "r"(static_cast<int>(from[i])));
}

/// Of types with a head for each 32 columns.
template <class V, Int8Type kType>
class HeadScales {
 public:
  using F = typename V::F;

  static constexpr bool kInOrder = true;

  /// From the section at `head` on.
  explicit HeadScales(const std::byte* head) : head_(head) {}

  void next() {
    head_ += kFormat.head_bytes();
    if (++block_ % kPanelSectionBlocks == 0) {
      head_ += kFormat.section_bytes() - kPanelSectionBlocks * kFormat.head_bytes();
    }
  }
  F scale(int v) const {
    const std::byte* half = head_ + 2 * v * V::kLanes;
    if constexpr (kTraits.scale == ScaleKind::kUpper) return V::load_uppers(half);
    if constexpr (kTraits.scale == ScaleKind::kEighth) return V::multiply(V::load_halves(half), V::set(0.125f));
    return V::load_halves(half);
  }
  /// Of the columns of one half of the block.
  F half_scale(int half, int v) const { return V::load_halves(head_ + half * kPanelHalf + 2 * v * V::kLanes); }
  /// To be subtracted: the file's is to be added.
  F minimum(int v) const { return V::multiply(V::load_halves(head_ + kPanelHalf + 2 * v * V::kLanes), V::set(-1)); }

 private:
  static constexpr Int8Traits kTraits = int8_traits(kType);
  static constexpr PanelFormat kFormat = kTraits.format;

  const std::byte* head_;
  int64_t block_ = 0;
};

/// Of a chunk whose scales were unpacked before: for blocks that several tiles meet.
template <class V, Int8Type kType>
class ChunkScales {
 public:
  using I = typename V::I;
  using F = typename V::F;

  static constexpr bool kInOrder = false;

  explicit ChunkScales(const PanelScales<V, kType>& scales)
      : scales_(scales.scales),
        half_scales_(scales.half_scales),
        minima_(scales.minima),
        factors_(scales.factors),
        minimum_pairs_(scales.minimum_pairs) {}

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

/// Taken from the head when asked: for blocks that are met once or twice, and wait for memory.
template <class V, Int8Type kType>
class ScalesInOrder {
 public:
  using I = typename V::I;
  using F = typename V::F;

  static constexpr bool kInOrder = true;

  /// From the section at `head` on, of `count` blocks. `multiplier` is the codebook's, or 1.
  ScalesInOrder(const std::byte* head, int64_t count, float multiplier)
      : head_(head),
        left_(count),
        multiplier_(multiplier),
        sections_(sections(std::make_integer_sequence<int, kVectors>())) {}

  void next() {
    --left_;
    if (++block_ == kPanelSectionBlocks && left_ > 0) {
      block_ = 0;
      head_ += int8_traits(kType).format.section_bytes();
      sections_ = sections(std::make_integer_sequence<int, kVectors>());
    }
  }
  F scale(int v) const { return sections_.of[v].scale(block_); }
  F half_scale(int half, int v) const { return sections_.of[v].half_scale(block_, half); }
  F minimum(int v) const { return sections_.of[v].minimum(block_); }
  I factor(int half, int v) const { return sections_.of[v].factor(block_, half); }
  I minimum_pair(int half, int v) const { return sections_.of[v].minimum_pair(block_, half); }

 private:
  static constexpr int kVectors = kPanelLanes / V::kLanes;
  struct Sections {
    SectionScales<V, kType> of[kVectors];
  };

  template <int... kAt>
  Sections sections(std::integer_sequence<int, kAt...> /*vectors*/) const {
    read_in_order(head_, int8_traits(kType).format.section_heads_bytes());
    return {{SectionScales<V, kType>(head_, kAt * V::kLanes, multiplier_)...}};
  }

  const std::byte* head_;
  int64_t left_;  // blocks
  float multiplier_;
  int block_ = 0;  // of the section
  Sections sections_;
};

}  // namespace
}  // namespace cairn::cpu
