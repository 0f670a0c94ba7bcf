/// Operations on the elements of one or two arrays.
#pragma once

#include "kernels/cuda/elementwise/four_columns.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kMapBlock = 256;
inline constexpr int64_t kMapBlocksMax = 4096;  // most blocks of map_kernel, which loops over the rest

// out[i] = f(x[i], y[i]), where a null y means ones.
template <bool kAligned, class F>
__global__ void __launch_bounds__(kMapBlock) map_kernel(F f, const float* x, const float* y, int64_t n, float* out) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t step = int64_t{gridDim.x} * kMapBlock * 4;
  for (int64_t i = 4 * (int64_t{blockIdx.x} * kMapBlock + threadIdx.x); i < n; i += step) {
    const Four a = load_four<kAligned>(x + i, n - i);
    Four b{{1, 1, 1, 1}};
    if (y != nullptr) b = load_four<kAligned>(y + i, n - i);
    Four result;
#pragma unroll
    for (int k = 0; k < 4; ++k) result.at[k] = f(a.at[k], b.at[k]);
    store_four<kAligned>(result, n - i, out + i);
  }
}

/// out[i] = f(x[i], y[i]) for all i below n. A null y has ones; `out` may be `x`.
template <class F>
void map(LaunchQueue& stream, const F& f, const float* x, const float* y, int64_t n, float* out) {
  if (n == 0) return;
  const auto kernel = columns_aligned(n, x, y, out) ? map_kernel<true, F> : map_kernel<false, F>;
  launch_dependent(kernel, dim3(blocks_of(n, kMapBlock * 4, kMapBlocksMax)), kMapBlock, 0, stream, f, x, y, n, out);
}

}  // namespace cairn::kernels::cuda
