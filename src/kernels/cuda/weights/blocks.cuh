/// Quantised blocks as products read them: eight int8 codes at a time, and their factors.
///
/// The unit is a group of 32 columns, a step of a product. A weight of it is
/// scale * factors[column / 16] * code - minimum, without the parts that a format does not have; with integer minima,
/// minimum * minima[column / 16] in place of the last. Where codes have an offset in the file (q - 8), they stand in
/// the upper bits of their byte, whose sign bit is then the flipped highest bit of q: the power of two is in the scale.
///
/// quant/blocks.h has the meaning of a block's bytes, panels.cuh their places. A format's kSections are the parts of
/// its block: a piece is what a group or a whole block reads at once.
#pragma once

#include "base/tensor_type.h"
#include "kernels/cuda/weights/panels.cuh"
#include "quant/blocks.h"

namespace cairn::kernels::cuda {

inline constexpr int kGroupColumns = 32;
inline constexpr int kGroupOctets = kGroupColumns / 8;

enum class Factors { kNone, kOf16Columns };
enum class Minima { kNone, kFloat, kInteger };

struct GroupScales {
  float scale = 0;
  float minimum = 0;
  int32_t factors[2] = {};
  int32_t minima[2] = {};
};

/// Members that all formats have. In addition a format has kGroups, kSections, codes(place, octet of the group) and
/// scales(place). A format with a section of four-bit codes (kNibbles) calls it kQs, has codes 0 to 15 less
/// kNibbleOffset, and nibble_source().
template <class Block, TensorType kOfType, Factors kWithFactors, Minima kWithMinima>
struct Format {
  static constexpr TensorType kType = kOfType;
  static constexpr Factors kFactors = kWithFactors;
  static constexpr Minima kMinima = kWithMinima;
  static constexpr int kBytes = static_cast<int>(sizeof(Block));
  /// Approximate middle of the codes; formats with minima have another one.
  static constexpr int kCentre = 0;
  static constexpr bool kNibbles = false;
};

/// The codes of eight columns from their four bits each, less `offset`.
CAIRN_HOST_DEVICE_INLINE Octet codes_of_nibbles(uint32_t word, int offset) {
  Octet codes = {};
  for (int c = 0; c < 8; ++c) {
    const uint32_t code = ((word >> nibble_shift(c)) & 15u) - static_cast<uint32_t>(offset);
    codes.words[c / 4] |= (code & 255u) << (c % 4 * 8);
  }
  return codes;
}

/// Where a block has a column's four-bit code: the byte of its section of codes, and whether it is the upper half.
struct NibbleSource {
  int byte = 0;
  bool upper = false;
};

/// Whether the sections of a format cover its block.
template <class F>
constexpr bool sections_are_block() {
  int end = 0;
  for (const Section& section : F::kSections) {
    if (section.offset != end || section.bytes % section.piece != 0) return false;
    end += section.bytes;
  }
  return end == F::kBytes;
}

/// The section of the many blocks that begin with a binary16.
inline constexpr Section kFirstHalf = {0, 2, 2};
CAIRN_HOST_DEVICE_INLINE float first_half(const GroupPlace& place) {
  return float_of_half(place.half_word<kFirstHalf>(0));
}

/// The weight of a code in columns [16 half, 16 half + 16) of its group, with the bits that quant's decoders give.
template <class F>
CAIRN_HOST_DEVICE_INLINE float weight_of(const GroupScales& scales, int code, int half) {
  const int32_t factor = F::kFactors == Factors::kNone ? 1 : half == 0 ? scales.factors[0] : scales.factors[1];
  float minimum = 0;
  if constexpr (F::kMinima == Minima::kFloat) minimum = scales.minimum;
  if constexpr (F::kMinima == Minima::kInteger) {
    minimum = scales.minimum * static_cast<float>(half == 0 ? scales.minima[0] : scales.minima[1]);
  }
#if defined(__CUDA_ARCH__)
  const float product = __fmul_rn(scales.scale, static_cast<float>(factor * code));
  return F::kMinima == Minima::kNone ? product : __fsub_rn(product, minimum);
#else
  const float product = scales.scale * static_cast<float>(factor * code);
  return F::kMinima == Minima::kNone ? product : product - minimum;
#endif
}

}  // namespace cairn::kernels::cuda
