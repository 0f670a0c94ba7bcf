/// Weights that are floats, read as float32.
#pragma once

#include "base/tensor_type.h"
#include "kernels/cuda/matmul/product.cuh"
#include "kernels/cuda/matmul/reduction_order.cuh"
#include "kernels/cuda/weights/formats.cuh"

namespace cairn::kernels::cuda {

struct FormatF32 {
  static constexpr TensorType kType = TensorType::kF32;
  static constexpr int kBytes = 4;
  static CAIRN_HOST_DEVICE_INLINE float of_bits(uint32_t bits) { return float_of_bits(bits); }
};
struct FormatF16 {
  static constexpr TensorType kType = TensorType::kF16;
  static constexpr int kBytes = 2;
  static CAIRN_HOST_DEVICE_INLINE float of_bits(uint32_t bits) { return float_of_half(bits); }
};
struct FormatBF16 {
  static constexpr TensorType kType = TensorType::kBF16;
  static constexpr int kBytes = 2;
  static CAIRN_HOST_DEVICE_INLINE float of_bits(uint32_t bits) { return float_of_bits(bits << 16); }
};

using FloatFormats = FormatList<FormatF32, FormatF16, FormatBF16>;

/// Whether all rows of a product can be read with kWide. It does not change results.
inline bool reads_wide(const Product& product) {
  return product.cols % kFloatStep == 0 && aligned16(product.x, product.weights);
}

/// Columns [column, column + kFloatStep) of a row, with zeros from `cols` on. With kWide, `cols` is a multiple of
/// kFloatStep and the row is aligned to 16 bytes.
template <class F, bool kWide>
__device__ __forceinline__ void load_columns(const uint8_t* row, int32_t column, int32_t cols,
                                             float (&out)[kFloatStep]) {
  const uint8_t* at = row + static_cast<int64_t>(column) * F::kBytes;
  if constexpr (!kWide) {
#pragma unroll
    for (int k = 0; k < kFloatStep; ++k) {
      const uint8_t* element = at + k * F::kBytes;
      out[k] = 0;
      if (column + k < cols) out[k] = F::of_bits(F::kBytes == 4 ? load_word(element) : load_half_word(element));
    }
    return;
  }
  constexpr int kWords = kFloatStep * F::kBytes / 4;
  uint32_t words[kWords] = {};
  if (column < cols) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = __ldg(reinterpret_cast<const uint4*>(at + 4 * i));
      words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
  }
#pragma unroll
  for (int k = 0; k < kFloatStep; ++k) {
    out[k] = F::kBytes == 4 ? F::of_bits(words[k % kWords]) : F::of_bits((words[k / 2] >> (k % 2 * 16)) & 0xffffu);
  }
}

}  // namespace cairn::kernels::cuda
