/// What the int8 products must know of a type at compile time.
///
/// ISA files include this header under their own flags: constants only (see quant/blocks.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/panel.h"
#include "quant/float_formats.h"

namespace cairn::cpu {
namespace {

enum class Int8Type { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ4_K, kQ5_K, kQ6_K, kIQ4_NL, kIQ4_XS, kMXFP4 };

/// Where a block of 32 columns has its float scale.
enum class ScaleKind {
  kHalf,      ///< the head's first half
  kUpper,     ///< the same, as the upper half of a float
  kUnpacked,  ///< in a K type's head: PanelScales
};

/// A weight is scale * factor * (code - offset) - minimum.
struct Int8Traits {
  PanelFormat format;
  int32_t bits;     ///< of a code in the body
  int32_t offset;   ///< 0 where there are minima
  int32_t largest;  ///< |code - offset| at most
  ScaleKind scale;
  bool factors = false;              ///< integer ones per 16 columns
  bool minima = false;               ///< per 32 columns
  bool minimum_pairs = false;        ///< integer ones per 16 columns, times one float
  const int8_t* codebook = nullptr;  ///< [16]: codes are its entries plus the offset

  // In int16, a lane of which has 16 columns of a block of 32 (see int8_row.h): whether its sum of products with
  // activations of up to 127 fits, or that of half of them.
  constexpr bool whole_fits() const { return !factors && largest * 127 * 16 <= 32767; }
  constexpr bool half_fits() const { return largest * 127 * 8 <= 32767; }
};

constexpr Int8Traits int8_traits(Int8Type type) {
  switch (type) {
    case Int8Type::kQ4_0:
      return {kPanelQ4_0, 4, 8, 8, ScaleKind::kHalf};
    case Int8Type::kQ4_1:
      return {.format = kPanelQ4_1, .bits = 4, .offset = 0, .largest = 15, .scale = ScaleKind::kHalf, .minima = true};
    case Int8Type::kQ5_0:
      return {kPanelQ5_0, 5, 16, 16, ScaleKind::kHalf};
    case Int8Type::kQ5_1:
      return {.format = kPanelQ5_1, .bits = 5, .offset = 0, .largest = 31, .scale = ScaleKind::kHalf, .minima = true};
    case Int8Type::kQ8_0:
      return {kPanelQ8_0, 8, 128, 128, ScaleKind::kHalf};
    case Int8Type::kQ2_K:
      return {.format = kPanelQ2_K,
              .bits = 2,
              .offset = 0,
              .largest = 3,
              .scale = ScaleKind::kUnpacked,
              .factors = true,
              .minimum_pairs = true};
    case Int8Type::kQ3_K:
      return {kPanelQ3_K, 3, 4, 4, ScaleKind::kUnpacked, true};
    case Int8Type::kQ4_K:
      return {
          .format = kPanelQ4_K, .bits = 4, .offset = 0, .largest = 15, .scale = ScaleKind::kUnpacked, .minima = true};
    case Int8Type::kQ5_K:
      return {
          .format = kPanelQ5_K, .bits = 5, .offset = 0, .largest = 31, .scale = ScaleKind::kUnpacked, .minima = true};
    case Int8Type::kQ6_K:
      return {kPanelQ6_K, 6, 32, 32, ScaleKind::kUnpacked, true};
    case Int8Type::kIQ4_NL:
      return {.format = kPanelIQ4_NL,
              .bits = 4,
              .offset = 128,
              .largest = 128,
              .scale = ScaleKind::kHalf,
              .codebook = kIq4Values};
    case Int8Type::kIQ4_XS:
      return {.format = kPanelIQ4_XS,
              .bits = 4,
              .offset = 128,
              .largest = 128,
              .scale = ScaleKind::kUnpacked,
              .codebook = kIq4Values};
    case Int8Type::kMXFP4:
      return {.format = kPanelMXFP4,
              .bits = 4,
              .offset = 16,
              .largest = 12,
              .scale = ScaleKind::kUpper,
              .codebook = kFp4Values};
  }
  __builtin_unreachable();
}

/// A codebook's codes for a byte shuffle.
struct ByteTable {
  alignas(16) uint8_t bytes[16];
};
constexpr ByteTable code_table(const Int8Traits& traits, int shift, int mask) {
  ByteTable table{};
  for (int i = 0; i < 16; ++i)
    table.bytes[i] = static_cast<uint8_t>((traits.codebook[i] + traits.offset) >> shift & mask);
  return table;
}

}  // namespace
}  // namespace cairn::cpu
