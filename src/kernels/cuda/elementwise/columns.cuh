/// Operations on rows whose columns are independent of each other.
#pragma once

#include "base/check.h"
#include "kernels/cuda/elementwise/four_columns.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kColumnsBlock = 256;

/// Maps rows to x and their columns, four at a time, to y. Calls f(row, column, number of columns).
template <class F>
__global__ void __launch_bounds__(kColumnsBlock) columns_kernel(F f, int64_t cols) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t step = int64_t{gridDim.y} * kColumnsBlock * 4;
  for (int64_t c = 4 * (int64_t{blockIdx.y} * kColumnsBlock + threadIdx.x); c < cols; c += step)
    f(blockIdx.x, c, cols - c);
}

template <class F>
void for_columns(LaunchQueue& stream, const F& f, int64_t rows, int64_t cols) {
  CAIRN_DCHECK(rows <= INT32_MAX);
  if (rows == 0) return;
  const dim3 grid(static_cast<unsigned>(rows), blocks_of(cols, kColumnsBlock * 4, kGridMax));
  launch_dependent(columns_kernel<F>, grid, kColumnsBlock, 0, stream, f, cols);
}

}  // namespace cairn::kernels::cuda
