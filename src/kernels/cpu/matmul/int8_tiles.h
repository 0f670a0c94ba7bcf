/// Tiles of the int8 products (matmul_int8_body.h): add a panel's products to the sums of some tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/matmul/few_tokens.h"
#include "kernels/cpu/matmul/int8_block.h"
#include "kernels/cpu/matmul/int8_prepared.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/matmul_panel.h"
#include "kernels/cpu/matmul/scaled_blocks.h"
#include "kernels/cpu/matmul/unpacked_blocks.h"

namespace cairn::kernels::cpu {
namespace {

/// Blocks whose codes are unpacked at once: the codes, the activations of a tile's tokens and the sums share the L1
/// cache.
inline constexpr int32_t kUnpackedBlocks = 16;
static_assert(kUnpackedBlocks % kPanelSectionBlocks == 0 && kScaledBlocksMax % kPanelSectionBlocks == 0 &&
              kChunkBlocks % kPanelSectionBlocks == 0);

/// Address of the section of a panel that holds the block.
static inline const std::byte* section_at(const PanelFormat& format, const std::byte* panel, int64_t block) {
  return panel + block / kPanelSectionBlocks * format.section_bytes();
}

template <class V>
struct Int8Tiles {
  using I = typename V::I;
  using F = typename V::F;
  /// Floats from one token's sums to the next one's: those of one panel, or of the two panels of ScaledProducts.
  static constexpr int kSumsRow = V::kScaledTokens > 0 ? kScaledRows : kPanelLanes;
  /// Extra sums for tokens that only pad a tile.
  static constexpr int32_t kSpareSums = (V::kTokens > V::kScaledTokens ? V::kTokens : V::kScaledTokens) - 1;

  /// Continues the sums of T tokens over `count` <= kChunkBlocks blocks, the first at `at` of the inputs. Only the
  /// first `tokens` of T inputs count; the others repeat the last one. Not inlined, to have all registers.
  template <int T, class Source>
  [[gnu::noinline]] static void tile(const Source& from, int64_t count, const std::byte* const* inputs, int32_t tokens,
                                     Places at, float* sums) {
    Source source = from;
    const std::byte* rows[T];
    for (int t = 0; t < T; ++t) rows[t] = inputs[t < tokens ? t : tokens - 1];
    Prepared<V, Source, T> prepared;
    prepared.fill(rows, at, count);
    prepared.give(at);
    SumsInMemory<V, kSumsRow> memory{sums};
    if constexpr (T > V::kTokensInRegisters) {
      BlockProducts<V>::template add_blocks<T>(source, count, rows, at, memory);
    } else {
      SumsInRegisters<V, T, Source::kVectors> registers;
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
        for (int v = 0; v < Source::kVectors; ++v) registers.set(t, v, memory.get(t, v));
      }
      BlockProducts<V>::template add_blocks<T>(source, count, rows, at, registers);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
        for (int v = 0; v < Source::kVectors; ++v) memory.set(t, v, registers.get(t, v));
      }
    }
  }

  /// Calls tile with the smallest power of two T that has room for the tokens.
  template <int T, class Source>
  static void tile_for(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                       const Places& at, float* sums) {
    if constexpr (T > 1) {
      if (tokens <= T / 2) return tile_for<T / 2>(tokens, source, count, inputs, at, sums);
    }
    tile<T>(source, count, inputs, tokens, at, sums);
  }

  /// Multiplies any number of tokens. `sums` has room for a multiple of V::kTokens.
  template <class Source>
  static void tiles(int32_t tokens, const Source& source, int64_t count, const std::byte* const* inputs,
                    const Places& at, float* sums) {
    for (int32_t t = 0; t < tokens; t += V::kTokens) {
      const int32_t n = tokens - t < V::kTokens ? tokens - t : V::kTokens;
      tile_for<V::kTokens>(n, source, count, inputs + t, at, sums + int64_t{t} * kSumsRow);
    }
  }

  /// Whether products of many tokens use ScaledProducts.
  template <Int8Type kType>
  static constexpr bool kScales = V::kScaledTokens > 0 && !kShapeOf<V, kType>.factors;

  /// Adds the products of blocks [block_begin, block_end) of a panel to the sums of at most kTokensAtOnce tokens. The
  /// kSpareSums after the tokens' sums are padding with unspecified values.
  template <Int8Type kType>
  static void multiply_panel(const Codebook& codebook, const std::byte* panel, int64_t cols, int64_t block_begin,
                             int64_t block_end, const std::byte* const* inputs, int32_t tokens, float* sums) {
    constexpr Int8Shape kShape = kShapeOf<V, kType>;
    if (tokens <= V::kManyAbove) {
      for (int64_t begin = block_begin; begin < block_end; begin += kChunkBlocks) {
        const int64_t count = block_end - begin < kChunkBlocks ? block_end - begin : kChunkBlocks;
        const auto blocks =
            FewTokens<V>::template blocks<kType>(codebook, section_at(int8_traits(kType).format, panel, begin), tokens);
        tiles(tokens, blocks, count, inputs, places(inputs[0], cols, begin), sums);
      }
      return;
    }
    constexpr int64_t kBlocks = V::unpacks(kType) ? kUnpackedBlocks : kChunkBlocks;
    Chunk<kType> chunk;
    for (int64_t begin = block_begin; begin < block_end; begin += kBlocks) {
      const int64_t count = block_end - begin < kBlocks ? block_end - begin : kBlocks;
      const Places at = places(inputs[0], cols, begin);
      auto blocks = chunk.blocks(codebook, panel, begin, count, read_ahead(tokens));
      if constexpr (V::unpacks(kType)) {
        UnpackedBlock<V, kShape> unpacked[kUnpackedBlocks];
        for_each_block(blocks, count, [&](int64_t b) {
          blocks.prefetch();
          unpacked[b].fill(blocks);
        });
        tiles(tokens, UnpackedBlocks<V, kShape>(unpacked), count, inputs, at, sums);
      } else {
        tiles(tokens, blocks, count, inputs, at, sums);
      }
    }
  }

  /// Blocks of a panel for several tiles, with their scales unpacked once.
  template <Int8Type kType>
  class Chunk {
   public:
    /// A source of at most kChunkBlocks blocks, valid until the next call.
    auto blocks(const Codebook& codebook, const std::byte* panel, int64_t begin, int64_t count,
                const PrefetchPolicy& ahead) {
      const std::byte* section = section_at(int8_traits(kType).format, panel, begin);
      if constexpr (PanelScales<V, kType>::kUnpacked) {
        scales_.unpack(section, count, codebook.multiplier);
        const ChunkScales<V, kType> scales(scales_);
        return PanelBlocks<V, kType, ChunkScales<V, kType>, false>(section, scales, codebook, ahead);
      } else {
        const HeadScales<V, kType> scales;
        return PanelBlocks<V, kType, HeadScales<V, kType>, false>(section, scales, codebook, ahead);
      }
    }

   private:
    PanelScales<V, kType> scales_;
  };
};

}  // namespace
}  // namespace cairn::kernels::cpu
