/// The quantised types whose weights are rows of a grid of vectors, with signs (blocks.cuh). Eight groups of 32
/// columns.
///
/// The grids are packed, two or four bits a weight: 512 bytes to 4 KiB of global memory, which stay in the first-level
/// cache. Constant memory would serve the lanes of a warp one after the other, since each reads another row.
#pragma once

#include "kernels/cuda/blocks_super.cuh"
#include "quant/iq_grid_codes.h"

namespace cairn::cuda {

#if defined(__CUDACC__)
namespace device_grids {
__device__ constexpr quant::GridCodes<2048> kIq1Codes = quant::kIq1Codes;
__device__ constexpr quant::GridCodes<256> kIq2XxsCodes = quant::kIq2XxsCodes;
__device__ constexpr quant::GridCodes<512> kIq2XsCodes = quant::kIq2XsCodes;
__device__ constexpr quant::GridCodes<1024> kIq2SCodes = quant::kIq2SCodes;
__device__ constexpr quant::GridCodes<256> kIq3XxsCodes = quant::kIq3XxsCodes;
__device__ constexpr quant::GridCodes<512> kIq3SCodes = quant::kIq3SCodes;
}  // namespace device_grids
#endif
// A grid of the side that runs.
#if defined(__CUDA_ARCH__)
#define CAIRN_GRID(name) device_grids::name.rows
#else
#define CAIRN_GRID(name) quant::name.rows
#endif

CAIRN_HOST_DEVICE uint32_t grid_row(const uint16_t* grid, uint32_t index) {
  return load_half_word(reinterpret_cast<const uint8_t*>(grid + index));
}

/// Bytes [from, from + 4) of a table.
template <int kLevels>
CAIRN_HOST_DEVICE constexpr uint32_t level_word(const int8_t (&levels)[kLevels], int from) {
  uint32_t word = 0;
  for (int i = from; i < kLevels && i < from + 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(levels[i])) << (i % 4 * 8);
  }
  return word;
}

/// A row of eight levels, of two bits each.
CAIRN_HOST_DEVICE Octet levels_of_pairs(uint32_t table, uint32_t row) {
  return {{look_up_pairs(table, row & 255u), look_up_pairs(table, row >> 8)}};
}

/// The levels, negated where a bit of `signs` is set. No level is 0, so that nothing is carried from byte to byte.
CAIRN_HOST_DEVICE Octet with_signs(const Octet& levels, uint32_t signs) {
  Octet signed_levels = {};
  for (int i = 0; i < 2; ++i) {
    const uint32_t ones = spread_bits(signs >> (4 * i), 0);
    signed_levels.words[i] = (levels.words[i] ^ (ones * 255u)) + ones;
  }
  return signed_levels;
}

/// What a scale of four bits stands for, in halves.
CAIRN_HOST_DEVICE int32_t odd(uint32_t code) { return static_cast<int32_t>(2 * code + 1); }
CAIRN_HOST_DEVICE float first_half(const uint8_t* block) { return float_of_half(load_half_word(block)); }

/// IQ1_S and IQ1_M: eight times the level, plus or minus one, so that the shift by an eighth is in the code.
CAIRN_HOST_DEVICE Octet iq1_codes(uint32_t index, bool down) {
  constexpr int8_t kUp[] = {8 * quant::kIq1Levels[0] + 1, 8 * quant::kIq1Levels[1] + 1, 8 * quant::kIq1Levels[2] + 1};
  constexpr int8_t kDown[] = {8 * quant::kIq1Levels[0] - 1, 8 * quant::kIq1Levels[1] - 1, 8 * quant::kIq1Levels[2] - 1};
  constexpr uint32_t kUpWord = level_word(kUp, 0), kDownWord = level_word(kDown, 0);
  return levels_of_pairs(down ? kDownWord : kUpWord, grid_row(CAIRN_GRID(kIq1Codes), index));
}

struct FormatIQ1_S : SuperFormat<BlockIQ1_S, TensorType::kIQ1_S, Factors::kNone, Minima::kNone> {
  static CAIRN_HOST_DEVICE uint32_t high(const uint8_t* block, int group) {
    return load_half_word(block + offsetof(BlockIQ1_S, qh) + 2 * group);
  }
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const uint32_t both = high(block, group);
    const uint32_t low = load_byte(block + offsetof(BlockIQ1_S, qs) + 4 * group + octet);
    return iq1_codes(low | ((both >> (3 * octet)) & 7u) << 8, (both & 0x8000u) != 0);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const auto factor = static_cast<float>(odd((high(block, group) >> 12) & 7u));
    return {.scale = first_half(block) * factor * (1.0f / 8)};
  }
};

struct FormatIQ1_M : SuperFormat<BlockIQ1_M, TensorType::kIQ1_M, Factors::kSmall, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const uint32_t low = load_byte(block + offsetof(BlockIQ1_M, qs) + 4 * group + octet);
    const uint32_t both = load_byte(block + offsetof(BlockIQ1_M, qh) + 2 * group + octet / 2) >> (octet % 2 * 4);
    return iq1_codes(low | (both & 7u) << 8, (both & 8u) != 0);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const Octet all = bytes(block, static_cast<int>(offsetof(BlockIQ1_M, scales)));
    const uint32_t half = ((all.words[0] >> 12) & 0x000fu) | ((all.words[0] >> 24) & 0x00f0u) |
                          ((all.words[1] >> 4) & 0x0f00u) | ((all.words[1] >> 16) & 0xf000u);
    const uint32_t six = all.words[group / 4] >> (group % 4 / 2 * 16 + group % 2 * 6);
    return {.scale = float_of_half(half) * (1.0f / 8), .factors = {odd(six & 7u), odd((six >> 3) & 7u)}};
  }
};

CAIRN_HOST_DEVICE Octet iq2_codes(uint32_t row, uint32_t signs) {
  constexpr uint32_t kLevels = level_word(quant::kIq2Levels, 0);
  return with_signs(levels_of_pairs(kLevels, row), signs);
}

/// Scales of four bits for 16 columns each.
CAIRN_HOST_DEVICE GroupScales iq2_scales(const uint8_t* block, uint32_t pair) {
  return {.scale = first_half(block) * (1.0f / 8), .factors = {odd(pair & 15u), odd(pair >> 4)}};
}

struct FormatIQ2_XXS : SuperFormat<BlockIQ2_XXS, TensorType::kIQ2_XXS, Factors::kNone, Minima::kNone> {
  static constexpr int kAt = static_cast<int>(offsetof(BlockIQ2_XXS, qs));
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const uint32_t index = load_byte(block + kAt + 8 * group + octet);
    const uint32_t signs = load_unaligned_word(block, kAt + 8 * group + 4) >> (7 * octet);
    return iq2_codes(grid_row(CAIRN_GRID(kIq2XxsCodes), index), even_signs_of(signs & 127u));
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t code = load_byte(block + kAt + 8 * group + 7) >> 4;
    return {.scale = first_half(block) * static_cast<float>(odd(code)) * (1.0f / 8)};
  }
};

struct FormatIQ2_XS : SuperFormat<BlockIQ2_XS, TensorType::kIQ2_XS, Factors::kSmall, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const uint32_t q = load_half_word(block + offsetof(BlockIQ2_XS, qs) + 8 * group + 2 * octet);
    return iq2_codes(grid_row(CAIRN_GRID(kIq2XsCodes), q & 511u), even_signs_of(q >> 9));
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    return iq2_scales(block, load_byte(block + offsetof(BlockIQ2_XS, scales) + group));
  }
};

struct FormatIQ2_S : SuperFormat<BlockIQ2_S, TensorType::kIQ2_S, Factors::kSmall, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    const int row = 4 * group + octet;
    const uint32_t high = (load_byte(block + offsetof(BlockIQ2_S, qh) + group) >> (2 * octet)) & 3u;
    const uint32_t index = load_byte(block + offsetof(BlockIQ2_S, qs) + row) | high << 8;
    return iq2_codes(grid_row(CAIRN_GRID(kIq2SCodes), index), load_byte(block + offsetof(BlockIQ2_S, signs) + row));
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    return iq2_scales(block, load_byte(block + offsetof(BlockIQ2_S, scales) + group));
  }
};

/// Two rows of four levels.
CAIRN_HOST_DEVICE Octet iq3_levels(uint32_t low, uint32_t high, uint32_t first, uint32_t second) {
  return {{permute_bytes(low, high, first), permute_bytes(low, high, second)}};
}

struct FormatIQ3_XXS : SuperFormat<BlockIQ3_XXS, TensorType::kIQ3_XXS, Factors::kNone, Minima::kNone> {
  static constexpr int kPackedAt = static_cast<int>(offsetof(BlockIQ3_XXS, scales_and_signs));
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    constexpr uint32_t kLow = level_word(quant::kIq3XxsLevels, 0), kHigh = level_word(quant::kIq3XxsLevels, 4);
    const uint32_t pair = load_half_word(block + offsetof(BlockIQ3_XXS, qs) + 8 * group + 2 * octet);
    const uint32_t signs = load_unaligned_word(block, kPackedAt + 4 * group) >> (7 * octet);
    const uint16_t* grid = CAIRN_GRID(kIq3XxsCodes);
    return with_signs(iq3_levels(kLow, kHigh, grid_row(grid, pair & 255u), grid_row(grid, pair >> 8)),
                      even_signs_of(signs & 127u));
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t code = load_byte(block + kPackedAt + 4 * group + 3) >> 4;
    return {.scale = first_half(block) * static_cast<float>(odd(code)) * (1.0f / 4)};
  }
};

struct FormatIQ3_S : SuperFormat<BlockIQ3_S, TensorType::kIQ3_S, Factors::kNone, Minima::kNone> {
  static CAIRN_HOST_DEVICE Octet codes(const uint8_t* block, int group, int octet) {
    constexpr uint32_t kLow = level_word(quant::kIq3SLevels, 0), kHigh = level_word(quant::kIq3SLevels, 4);
    const uint32_t pair = load_half_word(block + offsetof(BlockIQ3_S, qs) + 8 * group + 2 * octet);
    const uint32_t high = load_byte(block + offsetof(BlockIQ3_S, qh) + group) >> (2 * octet);
    const uint32_t signs = load_byte(block + offsetof(BlockIQ3_S, signs) + 4 * group + octet);
    const uint32_t first = (pair & 255u) | (high & 1u) << 8, second = pair >> 8 | (high & 2u) << 7;
    const uint16_t* grid = CAIRN_GRID(kIq3SCodes);
    return with_signs(iq3_levels(kLow, kHigh, grid_row(grid, first), grid_row(grid, second)), signs);
  }
  static CAIRN_HOST_DEVICE GroupScales scales(const uint8_t* block, int group) {
    const uint32_t pair = load_byte(block + offsetof(BlockIQ3_S, scales) + group / 2);
    return {.scale = first_half(block) * static_cast<float>(odd((pair >> (group % 2 * 4)) & 15u))};
  }
};

}  // namespace cairn::cuda
