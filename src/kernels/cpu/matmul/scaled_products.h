/// The tiles of scaled_blocks.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/scaled_blocks.h"

namespace cairn::kernels::cpu {
namespace {

/// Prefetches the blocks of two panels that are multiplied next, a few lines between products, since a processor has
/// few line-fill buffers.
class PanelPrefetcher {
 public:
  /// Prefetches `count` blocks from the section at `next` on.
  PanelPrefetcher(const PanelFormat& format, const std::byte* next, int64_t cols, int64_t count)
      : at_(reinterpret_cast<uintptr_t>(next)),
        panel_bytes_(static_cast<uintptr_t>(format.panel_bytes(cols))),
        lines_(count * format.section_bytes() / kPanelSectionBlocks / 64 + 1) {}

  /// Announces the number of calls of ask(), over which the lines are spread.
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
  int64_t lines_;  // lines still to prefetch, of each panel
  int64_t lines_at_once_ = 0;
};

/// Writes some of a token's outputs. With many tokens they are stored non-temporally, if V does that: their rows lie a
/// power of two apart, so that each of their lines would otherwise be read before it is written, and evict another one.
template <class V>
[[gnu::always_inline]] inline void put(typename V::F outputs, float* to, int32_t tokens) {
  if constexpr (V::kStoresNonTemporally) {
    if (tokens >= kNonTemporalTokensMin && reinterpret_cast<uintptr_t>(to) % 64 == 0) return V::stream(to, outputs);
  }
  std::memcpy(to, &outputs, sizeof(outputs));
}

template <class V, Int8Shape kShape>
class ScaledProducts {
 public:
  using Sums = float[kScaledRows];
  static constexpr int kTokens = V::kScaledTokens;

  /// Takes `count` <= kScaledBlocksMax blocks, at `at` of the inputs, of at most kTokensAtOnce tokens.
  void take_tokens(const std::byte* const* inputs, int32_t tokens, const Places& at, int64_t count) {
    inputs_ = inputs;
    count_of_tokens_ = tokens;
    at_ = at;
    count_ = count;
    for (int32_t t = 0; t < tokens; ++t) tokens_[t].fill(inputs[t], at, count);
    for (int32_t t = tokens; t % kTokens != 0; ++t) tokens_[t] = tokens_[tokens - 1];
  }
  /// Takes the same blocks of kScaledRows rows.
  template <class Source>
  void take_rows(Source from) {
    for_each_block(from, count_, [&](int64_t b) { blocks_[b].fill(from); });
  }

  /// Adds the products of what was taken to the tokens' sums, which start at 0 if `begin`. `sums` has room for a
  /// multiple of kTokens, where entries beyond the tokens are unspecified. If `end`, the sums are complete and go to
  /// outputs[t] + row.
  void add(PanelPrefetcher ahead, Sums* sums, bool begin, bool end, float* const* outputs, int64_t row) {
    ahead.expect((count_of_tokens_ + kTokens - 1) / kTokens * count_);
    for (int32_t t = 0; t < count_of_tokens_; t += kTokens) {
      const int32_t left = count_of_tokens_ - t;
      F totals[kTokens][kVectors];
      for_each_total(
          [&](int i, int v) { totals[i][v] = begin ? V::set(0) : V::load_floats(sums[t + i] + v * V::kLanes); });
      add_tile(inputs_ + t, tokens_ + t, left, ahead, totals);
      for_each_total([&](int i, int v) {
        if (!end) {
          V::store(sums[t + i] + v * V::kLanes, totals[i][v]);
        } else if (i < left) {
          put<V>(totals[i][v], outputs[t + i] + row + v * V::kLanes, count_of_tokens_);
        }
      });
    }
  }

 private:
  using I = typename V::I;
  using F = typename V::F;
  using Block = ScaledBlock<V, kShape>;
  using Token = ScaledToken<V, kShape, kScaledBlocksMax>;
  static constexpr int kParts = Block::kParts;
  static constexpr int kVectors = Block::kVectors;

  template <class Function>
  [[gnu::always_inline]] static void for_each_total(const Function& function) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) function(t, v);
    }
  }

  /// Only the first `tokens` inputs count; the others repeat the last one.
  [[gnu::always_inline]] void add_tile(const std::byte* const* inputs, const Token* tokens_at, int32_t tokens,
                                       PanelPrefetcher& ahead, F (*totals)[kVectors]) const {
    const std::byte* rows[kTokens];
    for (int t = 0; t < kTokens; ++t) rows[t] = inputs[t < tokens ? t : tokens - 1];
    Places at = at_;
    PanelPrefetcher asked = ahead;
    for (int64_t b = 0; b < count_; ++b) {
      asked.ask();
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) add_part(blocks_[b], b, part, rows, tokens_at, at, totals);
      at.advance();
    }
    ahead = asked;
  }

  [[gnu::always_inline]] static void add_part(const Block& block, int64_t b, int part, const std::byte* const* rows,
                                              const Token* tokens, const Places& at, F (*totals)[kVectors]) {
    constexpr int kGroups = 8 / kParts;  // groups of 4 columns
    I dots[kTokens][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
      const I start = tokens[t].start(b, part);
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
      const F scale = V::broadcast_float(rows[t] + at.scales);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const F both = V::multiply(V::load_floats(block.scales[part] + v * V::kLanes), scale);
        totals[t][v] = V::multiply_add(V::to_float(dots[t][v]), both, totals[t][v]);
        if constexpr (kShape.minima == Int8Shape::kFloat) {
          totals[t][v] = V::multiply_subtract(V::load_floats(block.minima + v * V::kLanes),
                                              V::broadcast_float(rows[t] + at.scaled_sums), totals[t][v]);
        }
      }
    }
  }

  Block blocks_[kScaledBlocksMax];
  Token tokens_[kTokensAtOnce + kTokens - 1];
  const std::byte* const* inputs_;
  int32_t count_of_tokens_;
  Places at_;
  int64_t count_;  // number of blocks
};

}  // namespace
}  // namespace cairn::kernels::cpu
