/// Products of few tokens with scales as in scaled_blocks.h (AVX-512). A block's codes are unpacked once, stay in
/// registers and are multiplied with groups of tokens, whose float sums are in memory: there are not enough registers
/// for all of them, and these products have stores to spare. Results have the same bits as those of BlockProducts
/// (int8_block.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/int8_type.h"
#include "kernels/cpu/matmul/matmul_panel.h"
#include "kernels/cpu/matmul/scaled_blocks.h"

namespace cairn::kernels::cpu {
namespace {

/// ScaledFew is used for more tokens than the first and at most the second. Fewer tokens have their sums in registers.
inline constexpr int32_t kScaledFewAbove = 8;
inline constexpr int32_t kScaledFewMax = 32;

/// Whether V has these products for a type.
template <class V, Int8Type kType>
constexpr bool kScalesFew = V::kScaledTokens > 0 && !kShapeOf<V, kType>.factors;

template <class V, Int8Shape kShape>
class ScaledFew {
 public:
  using Sums = float[kPanelLanes];

  /// Number of tokens whose sums add() continues; those beyond `tokens` are padding.
  static constexpr int32_t filled_up(int32_t tokens) { return (tokens + kHalf - 1) / kHalf * kHalf; }

  /// Takes `count` <= kPreparedBlocks blocks, the first at `at` of the rows, of at most kScaledFewMax tokens.
  void take(const std::byte* const* rows, int32_t tokens, const Places& at, int64_t count) {
    groups_ = filled_up(tokens) / kGroup;
    half_ = filled_up(tokens) % kGroup != 0;
    for (int32_t t = 0; t < filled_up(tokens); ++t) {
      rows_[t] = rows[t < tokens ? t : tokens - 1];
      tokens_[t].fill(rows_[t], at, count);
    }
    at_ = at;
    count_ = count;
  }

  /// Continues the tokens' sums over the blocks taken, from a source that starts at a section.
  template <class Source>
  void add(Source& source, Sums* sums) const {
    return half_ ? add_blocks<true>(source, sums) : add_blocks<false>(source, sums);
  }

 private:
  using I = typename V::I;
  using F = typename V::F;
  /// Its size is an odd number of cache lines; otherwise the tokens would share few sets of the L1 cache.
  struct Token : ScaledToken<V, kShape, kPreparedBlocks> {
    int32_t apart[16];
  };
  static constexpr int kParts = Token::kParts;
  static constexpr bool kMinima = kShape.minima == Int8Shape::kFloat;
  static constexpr int32_t kGroup = 8;
  static constexpr int32_t kHalf = kGroup / 2;
  static_assert(kScaledFewMax % kGroup == 0);

  /// A block of a panel in registers.
  struct Block {
    I codes[8];
    F scales[kParts];
    F minima;

    template <class Source>
    [[gnu::always_inline]] explicit Block(const Source& source) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) scales[part] = part_scale<kShape>(source, part, 0);
      if constexpr (kMinima) minima = source.minimum(0);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) codes[k] = source.group(k, 0);
    }
  };

  template <bool kAndHalf, class Source>
  void add_blocks(Source& source, Sums* sums) const {
    static_assert(Source::kVectors == 1);
    Places at = at_;
    for_each_block(source, count_, [&](int64_t b) __attribute__((always_inline)) {
      source.prefetch();
      const Block block(source);
      if constexpr (kAndHalf) add_group<kHalf>(block, b, groups_ * kGroup, at, sums);
      for (int32_t g = 0; g < groups_; ++g) add_group<kGroup>(block, b, g * kGroup, at, sums);
      at.advance();
    });
  }

  /// Adds a block to the sums of tokens [first, first + T).
  template <int T>
  [[gnu::always_inline]] void add_group(const Block& block, int64_t b, int32_t first, const Places& at,
                                        Sums* sums) const {
    constexpr int kGroups = 8 / kParts;  // groups of 4 columns
    const std::byte* const* rows = rows_ + first;
    const Token* tokens = tokens_ + first;
    I dots[T][kParts];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      // One address: the compiler would keep one for each group of columns, for which there are not enough registers.
      const std::byte* values = rows[t] + at.values;
      asm("" : "+r"(values));
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        dots[t][part] = tokens[t].start(b, part);
#pragma GCC unroll 8
        for (int k = part * kGroups; k < (part + 1) * kGroups; ++k) {
          dots[t][part] = V::dot_broadcast(dots[t][part], block.codes[k], values + 4 * k);
        }
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const F scale = V::broadcast_float(rows[t] + at.scales);
      F sum = V::load_floats(sums[first + t]);
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        sum = V::multiply_add(V::to_float(dots[t][part]), V::multiply(block.scales[part], scale), sum);
      }
      if constexpr (kMinima) {
        sum = V::multiply_subtract(block.minima, V::broadcast_float(rows[t] + at.scaled_sums), sum);
      }
      V::store(sums[first + t], sum);
    }
  }

  Token tokens_[kScaledFewMax];
  const std::byte* rows_[kScaledFewMax];
  int32_t groups_;  ///< number of groups of kGroup tokens
  bool half_;       ///< whether kHalf tokens follow them
  Places at_;
  int64_t count_;  ///< number of blocks
};

}  // namespace
}  // namespace cairn::kernels::cpu
