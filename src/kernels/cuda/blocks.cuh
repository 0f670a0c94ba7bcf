/// Quantised blocks as products read them: eight int8 codes at a time, and what they are multiplied by.
///
/// The unit is a group of 32 columns, which share a scale of the activations. A weight of it is
///   scale * factors[column / 16] * code - minimum,
/// without what a format does not have; with integer minima, minimum * minima[column / 16] in place of the last. Where
/// codes have an offset in the file (q - 8), they stand in the upper bits of their byte, whose sign bit is then the
/// flipped highest bit of q: the power of two is in the scale. Sums of codes times activations are integers and exact.
///
/// How the bytes lie is said in quant/blocks.h.
#pragma once

#include "base/tensor_type.h"
#include "kernels/cuda/words.cuh"
#include "quant/blocks.h"

namespace cairn::cuda {

inline constexpr int kGroupColumns = 32;
inline constexpr int kGroupOctets = kGroupColumns / 8;

/// Factors of 16 columns: kSmall, with which an integer holds a group's sum; or kLarge, bfloat16 numbers whose products
/// with sums of 16 columns are floats.
enum class Factors { kNone, kSmall, kLarge };
enum class Minima { kNone, kFloat, kInteger };

struct GroupScales {
  float scale = 0;
  float minimum = 0;
  int32_t factors[2] = {};
  int32_t minima[2] = {};
};

/// What all formats have. `block` points to a block's first byte, `group` counts in the block, `octet` in the group.
template <class Block, TensorType kOfType, Factors kWithFactors, Minima kWithMinima>
struct Format {
  static constexpr TensorType kType = kOfType;
  static constexpr Factors kFactors = kWithFactors;
  static constexpr Minima kMinima = kWithMinima;
  static constexpr int kBytes = static_cast<int>(sizeof(Block));
  /// What all blocks of a matrix are aligned to.
  static constexpr int kAlignment = kBytes & -kBytes;

  static CAIRN_HOST_DEVICE Octet bytes(const uint8_t* block, int offset) {
    return load_octet_of<kAlignment>(block, offset);
  }
};

/// A group of a row: its block, and which of the block's groups it is.
struct GroupPlace {
  const uint8_t* block;
  int group;
};
template <class F>
CAIRN_HOST_DEVICE GroupPlace group_place(const uint8_t* row, uint32_t group) {
  return {row + static_cast<uint64_t>(group / F::kGroups) * F::kBytes, static_cast<int>(group % F::kGroups)};
}

/// The weight of a code in columns [16 half, 16 half + 16) of its group. The bits that quant's decoders give.
template <class F>
CAIRN_HOST_DEVICE float weight_of(const GroupScales& scales, int code, int half) {
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

}  // namespace cairn::cuda
