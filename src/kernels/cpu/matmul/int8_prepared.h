/// What a tile makes of its tokens' rows before it multiplies them, not for every block: V::kPrepared says how many
/// dwords of a block, and V::prepare makes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/packed/panel_scales.h"

namespace cairn::cpu {
namespace {

/// Blocks that are prepared at once.
inline constexpr int64_t kPreparedBlocks = 256;
static_assert(kPreparedBlocks % kPanelSectionBlocks == 0 && kPreparedBlocks >= kChunkBlocks);
/// Dwords from one token to the next one: an odd number of cache lines.
template <int kPerBlock>
constexpr int64_t kPreparedRow = kPerBlock * kPreparedBlocks + 16;

/// For tiles of T tokens that meet a source's blocks.
template <class V, class Source, int T>
class Prepared {
 public:
  static constexpr int kPerBlock = V::template kPrepared<Source, T>;

  /// Of `count` <= kPreparedBlocks blocks of T rows, the first at `at`.
  void fill(const std::byte* const* rows, const Places& at, int64_t count) {
    if constexpr (kPerBlock > 0) {
      for (int t = 0; t < T; ++t) V::template prepare<Source::kShape>(rows[t], at, count, dwords_[t]);
    }
  }
  /// Where products of those blocks find them, and from block to block.
  void give(Places& at) const { at.prepared = dwords_[0]; }
  static void advance(Places& at) { at.prepared += kPerBlock; }

 private:
  alignas(64) int32_t dwords_[kPerBlock > 0 ? T : 1][kPerBlock > 0 ? kPreparedRow<kPerBlock> : 1];
};

// -- With VNNI: what sums of unsigned weights begin with.

/// Of a block, starts of its sums: one, or where its halves are summed each on its own, one for each.
template <Int8Shape kShape>
constexpr int kStartsOf = kShape.offset == 0                ? 0
                          : kShape.halves || kShape.factors ? 2
                                                            : 1;

/// -kOffset times the sums of blocks, kParts 1, or of their halves, whose offsets (int8_row.h) are given.
template <class V, int kOffset, int kParts>
inline typename V::I starts_of(typename V::I offsets) {
  static_assert(kParts == 1 ? kOffset % 8 == 0 : kOffset == 4 || kOffset % 32 == 0);
  if constexpr (kParts == 1) return V::pair_products(offsets, V::set_pairs(kOffset / 8));
  if constexpr (kOffset >= 32) return V::pair_products(offsets, V::set_pairs(kOffset / 32));
  return V::eighth(V::pair_products(offsets, V::set_pairs(1)));
}

/// What takes the offsets of unsigned weights out of the sums: starts[i] = -kShape.offset times the sum of a block's
/// columns, or of its half's.
template <class V, Int8Shape kShape>
inline void fill_starts(const std::byte* row, const Places& at, int64_t count, int32_t* starts) {
  constexpr int kParts = kStartsOf<kShape>;
  const std::byte* offsets = row + (kParts == 2 ? at.offsets32 : at.offsets8);
  for (int64_t i = 0; i < count * kParts; i += V::kLanes) {
    const auto some = V::load_up_to(offsets + i * sizeof(int32_t), count * kParts - i);
    V::store(starts + i, starts_of<V, kShape.offset, kParts>(some));
  }
}

}  // namespace
}  // namespace cairn::cpu
