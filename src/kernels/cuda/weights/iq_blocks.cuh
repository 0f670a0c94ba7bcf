/// Quantised types whose weights are rows of a grid of vectors, with signs (blocks.cuh). Blocks have eight groups of 32
/// columns.
#pragma once

#include "kernels/cuda/weights/iq_grids.cuh"
#include "kernels/cuda/weights/k_blocks.cuh"

namespace cairn::kernels::cuda {

/// Twice the value of a four-bit scale.
CAIRN_HOST_DEVICE_INLINE int32_t odd(uint32_t code) { return static_cast<int32_t>(2 * code + 1); }

/// For IQ1_S and IQ1_M: eight times the level, plus or minus one, so that the code includes the shift by an eighth.
CAIRN_HOST_DEVICE_INLINE Octet iq1_codes(uint32_t index, bool down) {
  constexpr int8_t kUp[] = {8 * quant::kIq1Levels[0] + 1, 8 * quant::kIq1Levels[1] + 1, 8 * quant::kIq1Levels[2] + 1};
  constexpr int8_t kDown[] = {8 * quant::kIq1Levels[0] - 1, 8 * quant::kIq1Levels[1] - 1, 8 * quant::kIq1Levels[2] - 1};
  constexpr uint32_t kUpWord = level_word(kUp, 0), kDownWord = level_word(kDown, 0);
  return levels_of_pairs(down ? kDownWord : kUpWord, grid_row(CAIRN_GRID(kIq1Codes), index));
}

struct FormatIQ1_S : SuperFormat<quant::BlockIQ1_S, TensorType::kIQ1_S, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ1_S, qs), sizeof(quant::BlockIQ1_S::qs), 4};
  static constexpr Section kQh = {offsetof(quant::BlockIQ1_S, qh), sizeof(quant::BlockIQ1_S::qh), 2};
  static constexpr Section kSections[] = {kFirstHalf, kQs, kQh};
  static CAIRN_HOST_DEVICE_INLINE uint32_t high(const GroupPlace& place) {
    return place.half_word<kQh>(2 * place.group);
  }
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t both = high(place);
    const uint32_t low = place.byte<kQs>(4 * place.group + octet);
    return iq1_codes(low | ((both >> (3 * octet)) & 7u) << 8, (both & 0x8000u) != 0);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const auto factor = static_cast<float>(odd((high(place) >> 12) & 7u));
    return {.scale = first_half(place) * factor * (1.0f / 8)};
  }
};

struct FormatIQ1_M : SuperFormat<quant::BlockIQ1_M, TensorType::kIQ1_M, Factors::kOf16Columns, Minima::kNone> {
  static constexpr Section kQs = {0, sizeof(quant::BlockIQ1_M::qs), 4};
  static constexpr Section kQh = {offsetof(quant::BlockIQ1_M, qh), sizeof(quant::BlockIQ1_M::qh), 2};
  static constexpr Section kScales = {offsetof(quant::BlockIQ1_M, scales), sizeof(quant::BlockIQ1_M::scales), 8};
  static constexpr Section kSections[] = {kQs, kQh, kScales};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t low = place.byte<kQs>(4 * place.group + octet);
    const uint32_t both = place.byte<kQh>(2 * place.group + octet / 2) >> (octet % 2 * 4);
    return iq1_codes(low | (both & 7u) << 8, (both & 8u) != 0);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const Octet all = place.octet<kScales>(0);
    const uint32_t half = ((all.words[0] >> 12) & 0x000fu) | ((all.words[0] >> 24) & 0x00f0u) |
                          ((all.words[1] >> 4) & 0x0f00u) | ((all.words[1] >> 16) & 0xf000u);
    const uint32_t six = all.words[place.group / 4] >> (place.group % 4 / 2 * 16 + place.group % 2 * 6);
    return {.scale = float_of_half(half) * (1.0f / 8), .factors = {odd(six & 7u), odd((six >> 3) & 7u)}};
  }
};

CAIRN_HOST_DEVICE_INLINE Octet iq2_codes(uint32_t row, uint32_t signs) {
  constexpr uint32_t kLevels = level_word(quant::kIq2Levels, 0);
  return with_signs(levels_of_pairs(kLevels, row), signs);
}

/// Four-bit scales, each for 16 columns.
CAIRN_HOST_DEVICE_INLINE GroupScales iq2_scales(const GroupPlace& place, uint32_t pair) {
  return {.scale = first_half(place) * (1.0f / 8), .factors = {odd(pair & 15u), odd(pair >> 4)}};
}

struct FormatIQ2_XXS : SuperFormat<quant::BlockIQ2_XXS, TensorType::kIQ2_XXS, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ2_XXS, qs), sizeof(quant::BlockIQ2_XXS::qs), 8};
  static constexpr Section kSections[] = {kFirstHalf, kQs};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t index = place.byte<kQs>(8 * place.group + octet);
    const uint32_t signs = place.word<kQs>(8 * place.group + 4) >> (7 * octet);
    return iq2_codes(grid_row(CAIRN_GRID(kIq2XxsCodes), index), even_signs_of(signs & 127u));
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t code = place.byte<kQs>(8 * place.group + 7) >> 4;
    return {.scale = first_half(place) * static_cast<float>(odd(code)) * (1.0f / 8)};
  }
};

struct FormatIQ2_XS : SuperFormat<quant::BlockIQ2_XS, TensorType::kIQ2_XS, Factors::kOf16Columns, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ2_XS, qs), sizeof(quant::BlockIQ2_XS::qs), 8};
  static constexpr Section kScales = {offsetof(quant::BlockIQ2_XS, scales), sizeof(quant::BlockIQ2_XS::scales), 8};
  static constexpr Section kSections[] = {kFirstHalf, kQs, kScales};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const uint32_t q = place.half_word<kQs>(8 * place.group + 2 * octet);
    return iq2_codes(grid_row(CAIRN_GRID(kIq2XsCodes), q & 511u), even_signs_of(q >> 9));
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return iq2_scales(place, place.byte<kScales>(place.group));
  }
};

struct FormatIQ2_S : SuperFormat<quant::BlockIQ2_S, TensorType::kIQ2_S, Factors::kOf16Columns, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ2_S, qs), sizeof(quant::BlockIQ2_S::qs), 4};
  static constexpr Section kSigns = {offsetof(quant::BlockIQ2_S, signs), sizeof(quant::BlockIQ2_S::signs), 4};
  static constexpr Section kQh = {offsetof(quant::BlockIQ2_S, qh), sizeof(quant::BlockIQ2_S::qh), 8};
  static constexpr Section kScales = {offsetof(quant::BlockIQ2_S, scales), sizeof(quant::BlockIQ2_S::scales), 8};
  static constexpr Section kSections[] = {kFirstHalf, kQs, kSigns, kQh, kScales};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    const int row = 4 * place.group + octet;
    const uint32_t high = (place.byte<kQh>(place.group) >> (2 * octet)) & 3u;
    const uint32_t index = place.byte<kQs>(row) | high << 8;
    return iq2_codes(grid_row(CAIRN_GRID(kIq2SCodes), index), place.byte<kSigns>(row));
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    return iq2_scales(place, place.byte<kScales>(place.group));
  }
};

/// Two grid rows of four levels.
CAIRN_HOST_DEVICE_INLINE Octet iq3_levels(uint32_t low, uint32_t high, uint32_t first, uint32_t second) {
  return {{permute_bytes(low, high, first), permute_bytes(low, high, second)}};
}

struct FormatIQ3_XXS : SuperFormat<quant::BlockIQ3_XXS, TensorType::kIQ3_XXS, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ3_XXS, qs), sizeof(quant::BlockIQ3_XXS::qs), 8};
  static constexpr Section kPacked = {offsetof(quant::BlockIQ3_XXS, scales_and_signs),
                                      sizeof(quant::BlockIQ3_XXS::scales_and_signs), 4};
  static constexpr Section kSections[] = {kFirstHalf, kQs, kPacked};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr uint32_t kLow = level_word(quant::kIq3XxsLevels, 0), kHigh = level_word(quant::kIq3XxsLevels, 4);
    const uint32_t pair = place.half_word<kQs>(8 * place.group + 2 * octet);
    const uint32_t signs = place.word<kPacked>(4 * place.group) >> (7 * octet);
    const uint16_t* grid = CAIRN_GRID(kIq3XxsCodes);
    return with_signs(iq3_levels(kLow, kHigh, grid_row(grid, pair & 255u), grid_row(grid, pair >> 8)),
                      even_signs_of(signs & 127u));
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t code = place.byte<kPacked>(4 * place.group + 3) >> 4;
    return {.scale = first_half(place) * static_cast<float>(odd(code)) * (1.0f / 4)};
  }
};

struct FormatIQ3_S : SuperFormat<quant::BlockIQ3_S, TensorType::kIQ3_S, Factors::kNone, Minima::kNone> {
  static constexpr Section kQs = {offsetof(quant::BlockIQ3_S, qs), sizeof(quant::BlockIQ3_S::qs), 8};
  static constexpr Section kQh = {offsetof(quant::BlockIQ3_S, qh), sizeof(quant::BlockIQ3_S::qh), 8};
  static constexpr Section kSigns = {offsetof(quant::BlockIQ3_S, signs), sizeof(quant::BlockIQ3_S::signs), 4};
  static constexpr Section kScales = {offsetof(quant::BlockIQ3_S, scales), sizeof(quant::BlockIQ3_S::scales), 4};
  static constexpr Section kSections[] = {kFirstHalf, kQs, kQh, kSigns, kScales};
  static CAIRN_HOST_DEVICE_INLINE Octet codes(const GroupPlace& place, int octet) {
    constexpr uint32_t kLow = level_word(quant::kIq3SLevels, 0), kHigh = level_word(quant::kIq3SLevels, 4);
    const uint32_t pair = place.half_word<kQs>(8 * place.group + 2 * octet);
    const uint32_t high = place.byte<kQh>(place.group) >> (2 * octet);
    const uint32_t signs = place.byte<kSigns>(4 * place.group + octet);
    const uint32_t first = (pair & 255u) | (high & 1u) << 8, second = pair >> 8 | (high & 2u) << 7;
    const uint16_t* grid = CAIRN_GRID(kIq3SCodes);
    return with_signs(iq3_levels(kLow, kHigh, grid_row(grid, first), grid_row(grid, second)), signs);
  }
  static CAIRN_HOST_DEVICE_INLINE GroupScales scales(const GroupPlace& place) {
    const uint32_t pair = place.byte<kScales>(place.group / 2);
    return {.scale = first_half(place) * static_cast<float>(odd((pair >> (place.group % 2 * 4)) & 15u))};
  }
};

}  // namespace cairn::kernels::cuda
