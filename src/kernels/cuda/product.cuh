/// One product as its kernels get it, and who computes it. Private to the products.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/operations.h"

namespace cairn::cuda {

/// Every row of `out` is a matrix times an input: the only matrix and the input of the same number, or with `ids` the
/// chosen matrix and the input of the row (or, `input_per_choice`, of the choice).
struct Product {
  TensorType type = TensorType::kF32;
  const uint8_t* weights = nullptr;
  int64_t row_bytes = 0;
  int64_t matrix_bytes = 0;
  int32_t rows = 0;  ///< of a matrix
  int32_t cols = 0;
  int32_t matrices = 1;
  const float* scales = nullptr;  ///< [matrices], of sums before the bias, or null
  const float* bias = nullptr;    ///< [matrices, rows] or null

  const float* x = nullptr;  ///< [inputs, cols]: of types without int8
  Int8Rows quantized;        ///< of the others
  int32_t padded_cols = 0;

  const int32_t* ids = nullptr;  ///< [outputs] or null
  int32_t used = 1;
  bool input_per_choice = false;
  int32_t outputs = 0;  ///< rows of out
  float* out = nullptr;

#if defined(__CUDACC__)
  __device__ __forceinline__ const uint8_t* weight_row(int32_t matrix, int32_t row) const {
    return weights + matrix * matrix_bytes + row * row_bytes;
  }
  __device__ __forceinline__ int32_t matrix_of(int32_t output) const { return ids == nullptr ? 0 : ids[output]; }
  __device__ __forceinline__ int32_t input_of(int32_t output) const {
    return ids == nullptr || input_per_choice ? output : output / used;
  }
  __device__ __forceinline__ void store(int32_t output, int32_t matrix, int32_t row, float sum) const {
    if (scales != nullptr) sum = __fmul_rn(sum, scales[matrix]);
    if (bias != nullptr) sum = __fadd_rn(sum, bias[static_cast<int64_t>(matrix) * rows + row]);
    out[static_cast<int64_t>(output) * rows + row] = sum;
  }
#endif
};

/// Up to so many outputs of one matrix are computed as vectors, more as tiles. All give the same bytes.
inline constexpr int32_t kVectorOutputs = 8;

// Vectors: at most kVectorOutputs outputs without `ids`, at most kGridMax with them. Each returns whether the type is
// one of its own.
bool multiply_vectors_small(cudaStream_t stream, const Product& product);
bool multiply_vectors_super(cudaStream_t stream, const Product& product);
bool multiply_vectors_low_bits(cudaStream_t stream, const Product& product);
bool multiply_vectors_float(cudaStream_t stream, const Product& product);
// Tiles: any number.
bool multiply_tiles_small(cudaStream_t stream, const Product& product);
bool multiply_tiles_super(cudaStream_t stream, const Product& product);
bool multiply_tiles_low_bits(cudaStream_t stream, const Product& product);
bool multiply_tiles_float(cudaStream_t stream, const Product& product);

}  // namespace cairn::cuda
