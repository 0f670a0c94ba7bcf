/// Products of matrices of 16-bit floats, on the tensor cores: activations are rounded to the weights' type, sums are
/// float32.
///
/// The columns of a row are cut into steps of 32, each of which is two instructions: a lane has eight neighbouring
/// columns of a row, the first four for the one and the rest for the other. Step s is of class s % kHalfClasses. A
/// class takes its steps in ascending order, from 0; the sums of the classes are added one after the other. So eight
/// warps may compute a few elements together, a class each, or one warp many of them, class after class: all give the
/// same bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/floats.cuh"
#include "kernels/cuda/mma.cuh"

namespace cairn::cuda {

using HalfFormats = FormatList<FormatF16, FormatBF16>;

inline constexpr int kHalfClasses = 8;
inline constexpr int kHalfStep = 32;
/// Columns of a step to a lane.
inline constexpr int kHalfColumns = 8;

__device__ __forceinline__ int32_t half_steps(const Product& product) {
  return (product.cols + kHalfStep - 1) / kHalfStep;
}

/// Columns [column, column + kHalfColumns) of a row of weights, zeros from the end on. With kWide, columns are a
/// multiple of kHalfColumns and the row is aligned to 16 bytes.
template <bool kWide>
__device__ __forceinline__ uint4 load_halves(const uint8_t* row, int32_t column, int32_t cols) {
  const uint8_t* at = row + static_cast<int64_t>(column) * 2;
  if constexpr (kWide) return column < cols ? __ldg(reinterpret_cast<const uint4*>(at)) : uint4{0, 0, 0, 0};
  uint32_t words[4] = {};
#pragma unroll
  for (int k = 0; k < kHalfColumns; ++k) {
    if (column + k < cols) words[k / 2] |= load_half_word(at + 2 * k) << (k % 2 * 16);
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Whether all rows of a product can be read with kWide. It changes no result.
inline bool reads_wide_halves(const Product& product) {
  return product.cols % kHalfColumns == 0 && aligned16(product.weights);
}

/// A step of 16 rows by 8 outputs: of the rows g and g + 8, and of output g, the lane's columns.
template <class F>
__device__ __forceinline__ void multiply_step(const uint4& row, const uint4& row_below, const uint4& input,
                                              float (&sums)[4]) {
  const uint32_t first_a[4] = {row.x, row_below.x, row.y, row_below.y}, first_b[2] = {input.x, input.y};
  const uint32_t second_a[4] = {row.z, row_below.z, row.w, row_below.w}, second_b[2] = {input.z, input.w};
  if constexpr (F::kType == TensorType::kBF16) {
    multiply_bf16(first_a, first_b, sums);
    multiply_bf16(second_a, second_b, sums);
  } else {
    multiply_f16(first_a, first_b, sums);
    multiply_f16(second_a, second_b, sums);
  }
}

/// Sum i of multiply_step is of row half_row(i, lane) and output half_output(i, lane).
__device__ __forceinline__ int32_t half_row(int i, int lane) { return lane / 4 + i / 2 * 8; }
__device__ __forceinline__ int32_t half_output(int i, int lane) { return lane % 4 * 2 + i % 2; }

__device__ __forceinline__ void store_half_product(const Product& product, int32_t output, int32_t matrix, int32_t row,
                                                   float sum) {
  product.store(output, matrix, row, __fmul_rn(sum, product.halves.scales[product.input_of(output)]));
}

}  // namespace cairn::cuda
