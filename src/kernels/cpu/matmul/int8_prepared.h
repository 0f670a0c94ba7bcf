/// Data that a tile derives from its tokens' rows once before it multiplies, instead of for every block: V::kPrepared
/// is the number of dwords per block, and V::prepare computes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/packed/panel_scales.h"

namespace cairn::kernels::cpu {
namespace {

/// Maximum number of blocks that are prepared at once.
inline constexpr int64_t kPreparedBlocks = 256;
static_assert(kPreparedBlocks % kPanelSectionBlocks == 0 && kPreparedBlocks >= kChunkBlocks);
/// Dwords from one token to the next one: an odd number of cache lines.
template <int kPerBlock>
constexpr int64_t kPreparedRow = kPerBlock * kPreparedBlocks + 16;

/// The prepared data of a tile of T tokens for a source's blocks.
template <class V, class Source, int T>
class Prepared {
 public:
  static constexpr int kPerBlock = V::template kPrepared<Source, T>;

  /// Prepares `count` <= kPreparedBlocks blocks of T rows, the first at `at`.
  void fill(const std::byte* const* rows, const Places& at, int64_t count) {
    if constexpr (kPerBlock > 0) {
      for (int t = 0; t < T; ++t) V::template prepare<Source::kShape>(rows[t], at, count, dwords_[t]);
    }
  }
  /// give() sets where the products of those blocks find the data; advance() moves on to the next block.
  void give(Places& at) const { at.prepared = dwords_[0]; }
  static void advance(Places& at) { at.prepared += kPerBlock; }

 private:
  alignas(64) int32_t dwords_[kPerBlock > 0 ? T : 1][kPerBlock > 0 ? kPreparedRow<kPerBlock> : 1];
};

// -- With VNNI: initial values of sums with unsigned weights.

/// Number of initial values per block: one, or one for each half if halves are summed separately; 0 without an offset.
template <Int8Shape kShape>
constexpr int kStartsOf = kShape.offset == 0                ? 0
                          : kShape.halves || kShape.factors ? 2
                                                            : 1;

/// -kOffset times the sums of blocks (kParts 1) or of their halves (kParts 2), from their offsets (int8_row.h).
template <class V, int kOffset, int kParts>
inline typename V::I starts_of(typename V::I offsets) {
  static_assert(kParts == 1 ? kOffset % 8 == 0 : kOffset == 4 || kOffset % 32 == 0);
  if constexpr (kParts == 1) return V::pair_products(offsets, V::set_pairs(kOffset / 8));
  if constexpr (kOffset >= 32) return V::pair_products(offsets, V::set_pairs(kOffset / 32));
  return V::eighth(V::pair_products(offsets, V::set_pairs(1)));
}

/// Initial values that cancel the offset of unsigned weights: starts[i] = -kShape.offset times the sum of the
/// activations of a block, or of its half.
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
}  // namespace cairn::kernels::cpu
