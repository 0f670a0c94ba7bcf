/// The tiles of scaled_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/scaled_blocks.h"

namespace cairn::cpu {
namespace {

/// Memory of the two panels after a pair, as many bytes of each as some of its blocks take: asked for between products,
/// little at a time, since a processor waits for a few lines only.
class PanelsAhead {
 public:
  /// After the pair at `panels`, whose blocks [begin, begin + count) are multiplied meanwhile.
  PanelsAhead(const PanelFormat& format, const std::byte* panels, int64_t cols, int64_t begin, int64_t count)
      : panel_bytes_(static_cast<uintptr_t>(format.panel_bytes(cols))) {
    const int64_t block_bytes = format.section_bytes() / kPanelSectionBlocks;
    at_ = reinterpret_cast<uintptr_t>(panels) + 2 * panel_bytes_ + static_cast<uintptr_t>(begin * block_bytes);
    lines_ = count * block_bytes / 64 + 1;
  }

  /// That ask() will be called so many times.
  void expect(int64_t times) { lines_at_once_ = (lines_ + times - 1) / times; }
  void ask() {
    if (lines_ <= 0) return;
    for (int64_t i = 0; i < lines_at_once_; ++i, at_ += 64) {
      __builtin_prefetch(reinterpret_cast<const void*>(at_));
      __builtin_prefetch(reinterpret_cast<const void*>(at_ + panel_bytes_));
    }
    lines_ -= lines_at_once_;
  }

 private:
  uintptr_t at_;
  uintptr_t panel_bytes_;
  int64_t lines_;  // still to ask for, of each panel
  int64_t lines_at_once_ = 0;
};

template <class V, Int8Shape kShape, int kRows>
class ScaledProducts {
 public:
  using Sums = float[kRows];
  static constexpr int kTokens = V::kScaledTokens;

  /// Takes `count` <= kScaledBlocksMax blocks. Whether all are ordinary: otherwise there is no product.
  template <class Source>
  bool fill(Source from, int64_t count) {
    bool ordinary = true;
    for (int64_t b = 0; b < count; ++b, from.next()) ordinary &= blocks_[b].fill(from);
    count_ = count;
    return ordinary;
  }

  /// Continues the sums of at most kTokensAtOnce tokens; the blocks' columns are at `at` of the inputs, whose scales
  /// are ordinary. `sums` has room for `tokens` rounded up to a multiple of kTokens; the rest means nothing.
  void add(const std::byte* const* inputs, int32_t tokens, const Places& at, PanelsAhead ahead, Sums* sums) {
    for (int32_t t = 0; t < tokens; ++t) start(inputs[t], at, starts_[t]);
    ahead.expect((tokens + kTokens - 1) / kTokens * count_);
    for (int32_t t = 0; t < tokens; t += kTokens) add_tile(inputs + t, t, tokens - t, at, ahead, sums + t);
  }

 private:
  using I = typename V::I;
  using F = typename V::F;
  using Block = ScaledBlock<V, kShape, kRows>;
  static constexpr int kParts = Block::kParts;
  static constexpr int kVectors = Block::kVectors;

  /// What a token's integer sums begin with.
  void start(const std::byte* row, const Places& at, int32_t* to) const {
    if constexpr (kShape.offset == 0) return;
    const std::byte* offsets = row + (kParts == 2 ? at.offsets32 : at.offsets8);
    const int64_t count = count_ * kParts;
    for (int64_t i = 0; i < count; i += V::kLanes) {
      if (count - i >= V::kLanes) {
        V::store(to + i, V::template starts<kShape.offset, kParts>(V::load(offsets + 4 * i)));
      } else {
        alignas(64) std::byte last[sizeof(I)] = {};
        std::memcpy(last, offsets + 4 * i, static_cast<size_t>(4 * (count - i)));
        V::store(to + i, V::template starts<kShape.offset, kParts>(V::load(last)));
      }
    }
  }

  /// Of the inputs only the first `tokens` count: the others' sums are of the last one. Not inlined, for registers.
  [[gnu::noinline]] void add_tile(const std::byte* const* inputs, int32_t first, int32_t tokens, Places at,
                                  PanelsAhead& ahead, Sums* sums) const {
    const std::byte* rows[kTokens];
    const int32_t* starts[kTokens];
    F totals[kTokens][kVectors];
    PanelsAhead asked = ahead;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const int token = t < tokens ? t : tokens - 1;
      rows[t] = inputs[token];
      starts[t] = starts_[first + token];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) totals[t][v] = V::load_floats(sums[t] + v * V::kLanes);
    }
    for (int64_t b = 0; b < count_; ++b) {
      asked.ask();
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) add_part(blocks_[b], b, part, rows, starts, at, totals);
      at.advance();
    }
    ahead = asked;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) V::store(sums[t] + v * V::kLanes, totals[t][v]);
    }
  }

  [[gnu::always_inline]] static void add_part(const Block& block, int64_t b, int part, const std::byte* const* rows,
                                              const int32_t* const* starts, const Places& at, F (*totals)[kVectors]) {
    constexpr int kGroups = 8 / kParts;  // of 4 columns
    I dots[kTokens][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const I start = kShape.offset == 0 ? V::set_pairs(0) : V::broadcast(starts[t][b * kParts + part]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) dots[t][v] = start;
    }
#pragma GCC unroll 8
    for (int k = part * kGroups; k < (part + 1) * kGroups; ++k) {
      I weights[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) weights[v] = V::load(block.codes[k][v * V::kLanes]);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const I y = V::broadcast4(rows[t] + at.values + 4 * k);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) dots[t][v] = V::dot(dots[t][v], weights[v], y);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const I scale = V::broadcast4(rows[t] + at.scales);
      const int32_t* factors = block.factors[part][mantissa(rows[t] + at.scales)];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const F product = V::scaled(block.present[part][v], factors + v * V::kLanes, scale);
        totals[t][v] = V::multiply_add(V::to_float(dots[t][v]), product, totals[t][v]);
        if constexpr (kShape.minima == Int8Shape::kFloat) {
          totals[t][v] = V::multiply_subtract(V::load_floats(block.minima + v * V::kLanes),
                                              V::broadcast_float(rows[t] + at.scaled_sums), totals[t][v]);
        }
      }
    }
  }

  static uint32_t mantissa(const std::byte* scale) {
    uint32_t bits;
    std::memcpy(&bits, scale, sizeof(bits));
    return bits / ((1 << 23) / kInt8Mantissas) % kInt8Mantissas;
  }

  Block blocks_[kScaledBlocksMax];
  alignas(64) int32_t starts_[kTokensAtOnce][kScaledBlocksMax * kParts];
  int64_t count_;
};

}  // namespace
}  // namespace cairn::cpu
