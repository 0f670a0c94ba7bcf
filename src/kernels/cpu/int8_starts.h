/// What integer sums of the int8 products begin with where that is known before a tile, not multiplied for every block
/// (VNNI).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/int8_type.h"
#include "kernels/cpu/panel_scales.h"

namespace cairn::cpu {
namespace {

/// Of a block, starts of its sums: one, or where its halves are summed each on its own, one for each.
template <Int8Shape kShape>
constexpr int kStartsOf = kShape.halves || kShape.factors ? 2 : 1;
/// Blocks whose starts are there at once.
inline constexpr int64_t kStartsBlocks = 256;
/// From one token's starts to the next one's: an odd number of cache lines.
inline constexpr int64_t kStartsRow = 2 * kStartsBlocks + 16;
static_assert(kStartsBlocks % kPanelSectionBlocks == 0 && kStartsBlocks >= kChunkBlocks);

/// Whether V wants them (Int8Vector's kStarts).
template <class V, Int8Shape kShape>
constexpr bool kHasStarts = V::kStarts && kShape.offset != 0;

/// -kOffset times the sums of blocks, kParts 1, or of their halves, whose offsets (int8_row.h) are given.
template <class V, int kOffset, int kParts>
inline typename V::I starts_of(typename V::I offsets) {
  static_assert(kParts == 1 ? kOffset % 8 == 0 : kOffset == 4 || kOffset % 32 == 0);
  if constexpr (kParts == 1) return V::pair_products(offsets, V::set_pairs(kOffset / 8));
  if constexpr (kOffset >= 32) return V::pair_products(offsets, V::set_pairs(kOffset / 32));
  return V::eighth(V::pair_products(offsets, V::set_pairs(1)));
}

/// What takes the offsets of unsigned weights out of the sums: starts[i] = -kShape.offset times the sum of a block's
/// columns, or of its half's, for `count` <= kStartsBlocks blocks, the first at `at` of the row.
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
