/// The arguments of one product's kernels, and the functions that launch them. Private to the products.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/weights/panels.cuh"

namespace cairn::kernels::cuda {

/// Every row of `out` is a matrix times an input: the only matrix and the input of the same index, or, with `ids`, the
/// chosen matrix and the input of the row (or, with `input_per_choice`, of the choice).
struct Product {
  TensorType type = TensorType::kF32;
  const uint8_t* weights = nullptr;
  int64_t row_bytes = 0;
  int64_t matrix_bytes = 0;  ///< size of one matrix on the device
  uint32_t row_blocks = 0;   ///< blocks per row
  int32_t rows = 0;          ///< rows per matrix
  int32_t cols = 0;
  int32_t matrices = 1;
  const float* scales = nullptr;  ///< [matrices]: factors on sums before the bias, or null
  const float* bias = nullptr;    ///< [matrices, rows] or null

  const float* x = nullptr;  ///< [inputs, cols]
  HalfRows halves;           ///< the same in 16 bits, for all types but float32
  int32_t padded_cols = 0;

  const int32_t* ids = nullptr;  ///< [outputs] or null
  int32_t used = 1;
  bool input_per_choice = false;
  int32_t outputs = 0;  ///< rows of out
  float* out = nullptr;

#if defined(__CUDACC__)
  /// The address of a row, for float types.
  __device__ __forceinline__ const uint8_t* weight_row(int32_t matrix, int32_t row) const {
    return weights + matrix * matrix_bytes + row * row_bytes;
  }
  /// The panel that holds the row, as its row `row % kPanelRows`; for quantised types.
  __device__ __forceinline__ const uint8_t* panel_of(int32_t matrix, int32_t row) const {
    return weights + matrix * matrix_bytes + row / kPanelRows * kPanelRows * row_bytes;
  }
  __device__ __forceinline__ int32_t matrix_of(int32_t output) const { return ids == nullptr ? 0 : ids[output]; }
  __device__ __forceinline__ int32_t input_of(int32_t output) const {
    return ids == nullptr || input_per_choice ? output : output / used;
  }
  /// The product that a sum of terms gives.
  __device__ __forceinline__ float finished(int32_t matrix, int32_t row, float sum) const {
    if (scales != nullptr) sum = __fmul_rn(sum, scales[matrix]);
    if (bias != nullptr) sum = __fadd_rn(sum, bias[static_cast<int64_t>(matrix) * rows + row]);
    return sum;
  }
  __device__ __forceinline__ void store(int32_t output, int32_t matrix, int32_t row, float sum) const {
    out[static_cast<int64_t>(output) * rows + row] = finished(matrix, row, sum);
  }
#endif
};

/// Products that one launch computes, one after the other in its grid: matrices of one type with the same inputs and
/// choices. Together small ones take no longer than the largest one.
struct Products {
  static constexpr int kMax = 3;

  Product of[kMax];
  int count = 0;
  uint32_t first_blocks[kMax] = {};  ///< first block of each product: along x for GEMV, along y for GEMM

  /// The blocks of all products, along one side of the grid, each of which needs blocks_for(product).
  template <class BlocksFor>
  unsigned place(BlocksFor blocks_for) {
    uint32_t blocks = 0;
    for (int i = 0; i < count; ++i) {
      first_blocks[i] = blocks;
      blocks += blocks_for(of[i]);
    }
    return blocks;
  }
#if defined(__CUDACC__)
  /// The product that a block computes, by default the current one of a row of blocks.
  __device__ __forceinline__ int of_block(uint32_t block = blockIdx.x) const {
    int own = 0;
#pragma unroll
    for (int i = 1; i < kMax; ++i) own += i < count && block >= first_blocks[i] ? 1 : 0;
    return own;
  }
#endif
};

/// Up to this many outputs of one matrix are computed by GEMV kernels, more by GEMM, whose tiles are too few for a GPU
/// then. Both give the same bytes.
inline constexpr int32_t kVectorOutputs = 128;
inline constexpr int32_t kFloatVectorOutputs = 8;  // kVectorOutputs for float32

// GEMV: at most kVectorOutputs (kFloatVectorOutputs) outputs without `ids`, at most kGridMax with them. Each returns
// whether the type is one of its own.
bool multiply_vectors_small(LaunchQueue& stream, Products& products);
bool multiply_vectors_super(LaunchQueue& stream, Products& products);
bool multiply_vectors_low_bits(LaunchQueue& stream, Products& products);
bool multiply_vectors_float(LaunchQueue& stream, Products& products);
bool multiply_vectors_half(LaunchQueue& stream, Products& products);
// GEMM: any number of outputs.
bool multiply_tiles_small(LaunchQueue& stream, Products& products);
bool multiply_tiles_super(LaunchQueue& stream, Products& products);
bool multiply_tiles_low_bits(LaunchQueue& stream, Products& products);
bool multiply_tiles_float(LaunchQueue& stream, Products& products);
bool multiply_tiles_half(LaunchQueue& stream, Products& products);

}  // namespace cairn::kernels::cuda
