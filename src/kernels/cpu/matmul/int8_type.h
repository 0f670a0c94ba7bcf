/// Compile-time properties of a type for the int8 products.
///
/// ISA files include this header under their own flags: constants only (see quant/blocks.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/packed/panel.h"

namespace cairn::kernels::cpu {
namespace {

/// The arithmetic of a block of 32 columns, which is all that remains of a type once its weights are unpacked. A weight
/// is scale * factor * (code - offset) - minimum.
struct Int8Shape {
  int32_t offset;   ///< how much the unsigned codes have been raised
  int32_t largest;  ///< maximum of |code - offset|
  bool factors;     ///< whether there are integer factors per 16 columns
  /// none; a float per 32 columns; integers per 16 columns times a float
  enum Minima { kNone, kFloat, kInteger } minima;
  bool halves = false;  ///< whether a scale is for 16 columns

  // Whether int16 holds a lane's sum of products with activations of up to 127: of all 16 columns that a lane has of a
  // block (see int8_row.h), of half or of a quarter of them.
  constexpr bool whole_fits() const { return !factors && largest * 127 * 16 <= 32767; }
  constexpr bool half_fits() const { return largest * 127 * 8 <= 32767; }
  constexpr bool quarter_fits() const { return largest * 127 * 4 <= 32767; }
};

/// Types with the same arithmetic share their code: all those of kPanelCodes are kCodes, or kSmallCodes if their values
/// are at most 16.
enum class Int8Type {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kNVFP4,
  kQ1_0,
  kQ2_0,
  kCodes,
  kSmallCodes
};

/// Where the float scale of a block of 32 columns comes from.
enum class ScaleKind {
  kHalf,     ///< the head's first binary16
  kEighth,   ///< an eighth of it, as codes are multiplied by eight
  kHalves,   ///< one per 16 columns: the head's binary16 numbers
  kUpper,    ///< the head's first bfloat16
  kSection,  ///< a head of 256 columns: SectionScales
};

struct Int8Traits {
  PanelFormat format;
  int32_t bits;   ///< bits of a weight in the body
  bool codebook;  ///< whether codes are indices of a codebook, whose values plus the offset they become
  ScaleKind scale;
  Int8Shape shape;
};

constexpr Int8Traits int8_traits(Int8Type type) {
  using Shape = Int8Shape;
  switch (type) {
    case Int8Type::kQ4_0:
      return {kPanelQ4_0, 4, false, ScaleKind::kHalf, {8, 8, false, Shape::kNone}};
    case Int8Type::kQ4_1:
      return {kPanelQ4_1, 4, false, ScaleKind::kHalf, {0, 15, false, Shape::kFloat}};
    case Int8Type::kQ5_0:
      return {kPanelQ5_0, 5, false, ScaleKind::kHalf, {16, 16, false, Shape::kNone}};
    case Int8Type::kQ5_1:
      return {kPanelQ5_1, 5, false, ScaleKind::kHalf, {0, 31, false, Shape::kFloat}};
    case Int8Type::kQ8_0:
      return {kPanelQ8_0, 8, false, ScaleKind::kHalf, {128, 128, false, Shape::kNone}};
    case Int8Type::kQ2_K:
      return {kPanelQ2_K, 2, false, ScaleKind::kSection, {0, 3, true, Shape::kInteger}};
    case Int8Type::kQ3_K:
      return {kPanelQ3_K, 3, false, ScaleKind::kSection, {4, 4, true, Shape::kNone}};
    case Int8Type::kQ4_K:
      return {kPanelQ4_K, 4, false, ScaleKind::kSection, {0, 15, false, Shape::kFloat}};
    case Int8Type::kQ5_K:
      return {kPanelQ5_K, 5, false, ScaleKind::kSection, {0, 31, false, Shape::kFloat}};
    case Int8Type::kQ6_K:
      return {kPanelQ6_K, 6, false, ScaleKind::kSection, {32, 32, true, Shape::kNone}};
    case Int8Type::kIQ4_NL:
      return {kPanelIQ4_NL, 4, true, ScaleKind::kHalf, {128, 128, false, Shape::kNone}};
    case Int8Type::kIQ4_XS:
      return {kPanelIQ4_XS, 4, true, ScaleKind::kSection, {128, 128, false, Shape::kNone}};
    case Int8Type::kMXFP4:
      return {kPanelMXFP4, 4, true, ScaleKind::kUpper, {16, 12, false, Shape::kNone}};
    case Int8Type::kNVFP4:
      return {kPanelNVFP4.of_32_cols(), 4, true, ScaleKind::kHalves, {32, 12, false, Shape::kNone, true}};
    case Int8Type::kQ1_0:
      return {kPanelQ1_0.of_32_cols(), 1, false, ScaleKind::kEighth, {8, 8, false, Shape::kNone}};
    case Int8Type::kQ2_0:
      return {kPanelQ2_0.of_32_cols(), 2, false, ScaleKind::kEighth, {8, 16, false, Shape::kNone}};
    case Int8Type::kCodes:
      return {kPanelCodes, 4, true, ScaleKind::kSection, {64, 62, true, Shape::kNone}};
    case Int8Type::kSmallCodes:
      return {kPanelCodes, 4, true, ScaleKind::kSection, {32, 16, true, Shape::kNone}};
  }
  __builtin_unreachable();
}

/// A codebook's codes as the table of a byte shuffle.
struct ByteTable {
  alignas(16) uint8_t bytes[16];
};
inline ByteTable code_table(const Codebook& codebook, int32_t offset) {
  ByteTable table;
  for (int i = 0; i < 16; ++i) table.bytes[i] = static_cast<uint8_t>(codebook.values[i] + offset);
  return table;
}

}  // namespace
}  // namespace cairn::kernels::cpu
