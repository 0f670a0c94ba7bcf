/// Operations on whole rows: a short row has a warp, a longer one a block, depending on the number of columns alone.
///
/// Columns go to threads four at a time in turn; each thread adds its own in float32 in ascending order, then the
/// threads' sums are added in double precision (reduce.cuh).
#pragma once

#include "base/check.h"
#include "kernels/cuda/elementwise/four_columns.cuh"
#include "kernels/cuda/elementwise/reduce.cuh"

namespace cairn::cuda {

inline constexpr int kRowBlock = 256;
inline constexpr int64_t kWarpColumns = 1024;  // a row of up to this many columns has a warp

/// The thread's part of its row, which kThreads threads share.
template <int kThreads>
struct RowPart {
  int64_t row = int64_t{blockIdx.x} * (kRowBlock / kThreads) + threadIdx.x / kThreads;
  int64_t first = 4 * (threadIdx.x % kThreads);
  static constexpr int64_t kStep = 4 * kThreads;
};

/// The sum of f(value of x, column) over all columns of the row, by all of its threads.
template <int kThreads, bool kAligned, class F>
__device__ double sum_of(const float* x, int64_t cols, F f) {
  using P = RowPart<kThreads>;
  float sum = 0;
  for (int64_t c = P().first; c < cols; c += P::kStep) {
    const Four four = load_four<kAligned>(x + c, cols - c);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (kAligned || c + k < cols) sum = f(sum, four.at[k], c + k);
    }
  }
  return row_sum<kThreads>(sum);
}

/// Writes out[c] = f(x[c], c) for the thread's columns.
template <int kThreads, bool kAligned, class F>
__device__ void map_row(const float* x, int64_t cols, float* out, F f) {
  using P = RowPart<kThreads>;
  for (int64_t c = P().first; c < cols; c += P::kStep) {
    Four four = load_four<kAligned>(x + c, cols - c);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (kAligned || c + k < cols) four.at[k] = f(four.at[k], c + k);
    }
    store_four<kAligned>(four, cols - c, out + c);
  }
}

template <int kThreads, bool kAligned, class Operation>
__global__ void __launch_bounds__(kRowBlock) row_kernel(Operation operation, int64_t rows, int64_t cols) {
  // All threads of a row return together: they are whole warps, or the whole block.
  const int64_t row = RowPart<kThreads>().row;
  if (row < rows) operation.template operator()<kThreads, kAligned>(row, cols);
}

/// Calls operation.operator()<kThreads, kAligned>(row, cols) with the threads of each row.
template <class Operation>
void for_rows(LaunchQueue& stream, const Operation& operation, int64_t rows, int64_t cols, bool aligned) {
  CAIRN_DCHECK(rows <= INT32_MAX);
  if (rows == 0) return;
  if (cols <= kWarpColumns) {
    const auto kernel = aligned ? row_kernel<kWarp, true, Operation> : row_kernel<kWarp, false, Operation>;
    launch(kernel, dim3(blocks_of(rows, kRowBlock / kWarp, INT32_MAX)), kRowBlock, 0, stream, operation, rows, cols);
  } else {
    const auto kernel = aligned ? row_kernel<kRowBlock, true, Operation> : row_kernel<kRowBlock, false, Operation>;
    launch(kernel, dim3(blocks_of(rows, 1, INT32_MAX)), kRowBlock, 0, stream, operation, rows, cols);
  }
}

}  // namespace cairn::cuda
