/// Operations on rows that need a sum over the row: rms_norm, layer_norm, steer.
///
/// Columns go to threads four at a time in turn; each thread adds its own in float32 in ascending order, then the
/// threads' sums are added in double precision (reduce.cuh). Short rows have a warp each, longer ones a block: which,
/// depends on the number of columns alone.
#include "base/check.h"
#include "kernels/cuda/four.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"

namespace cairn::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kWarpColumns = 1024;  // up to here a row has a warp

// The thread's place in its row: kThreads threads share one.
template <int kThreads>
struct Place {
  int64_t row = int64_t{blockIdx.x} * (kBlock / kThreads) + threadIdx.x / kThreads;
  int64_t first = 4 * (threadIdx.x % kThreads);
  static constexpr int64_t kStep = 4 * kThreads;
};

// Sum over the thread's columns, and all threads', of f(value of x, column).
template <int kThreads, bool kAligned, class F>
__device__ double sum_of(const float* x, int64_t cols, F f) {
  using P = Place<kThreads>;
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

// out[c] = f(x[c], c) over the thread's columns.
template <int kThreads, bool kAligned, class F>
__device__ void map_row(const float* x, int64_t cols, float* out, F f) {
  using P = Place<kThreads>;
  for (int64_t c = P().first; c < cols; c += P::kStep) {
    Four four = load_four<kAligned>(x + c, cols - c);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (kAligned || c + k < cols) four.at[k] = f(four.at[k], c + k);
    }
    store_four<kAligned>(four, cols - c, out + c);
  }
}

struct RmsNorm {
  float* x;
  const float* added;  // or null
  float added_scale;
  const float* weight;
  float epsilon;
  float* out;
  Int8Rows quantized;  // codes null: not wanted

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    using P = Place<kThreads>;
    float* from = x + row * cols;
    if (added != nullptr) {
      const float* y = added + row * cols;
      for (int64_t c = P().first; c < cols; c += P::kStep) {
        Four four = load_four<kAligned>(from + c, cols - c);
        const Four other = load_four<kAligned>(y + c, cols - c);
#pragma unroll
        for (int k = 0; k < 4; ++k) four.at[k] = __fmaf_rn(added_scale, other.at[k], four.at[k]);
        store_four<kAligned>(four, cols - c, from + c);
      }
    }
    const double sum = sum_of<kThreads, kAligned>(
        from, cols, [](float sum, float value, int64_t) { return __fmaf_rn(value, value, sum); });
    const double mean = sum / static_cast<double>(cols);
    const auto factor = static_cast<float>(1.0 / sqrt(mean + static_cast<double>(epsilon)));
    float* const to = out + row * cols;
    const float* w = weight;
    map_row<kThreads, kAligned>(from, cols, to, [factor, w](float value, int64_t c) {
      value = __fmul_rn(value, factor);
      return w == nullptr ? value : __fmul_rn(value, w[c]);
    });
    if (quantized.codes == nullptr) return;
    // What each thread has just written.
    for (int64_t c = P().first; c < cols; c += P::kStep) {
      quantize_four(load_four<kAligned>(to + c, cols - c), row * cols + c, quantized);
    }
  }
};

struct LayerNorm {
  const float* x;
  const float* weight;
  const float* bias;
  float epsilon;
  float* out;

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    const float* from = x + row * cols;
    const auto count = static_cast<double>(cols);
    const auto mean = static_cast<float>(
        sum_of<kThreads, kAligned>(from, cols, [](float sum, float value, int64_t) { return __fadd_rn(sum, value); }) /
        count);
    const double squares = sum_of<kThreads, kAligned>(from, cols, [mean](float sum, float value, int64_t) {
      const float apart = __fsub_rn(value, mean);
      return __fmaf_rn(apart, apart, sum);
    });
    const auto factor = static_cast<float>(1.0 / sqrt(squares / count + static_cast<double>(epsilon)));
    const float* w = weight;
    const float* b = bias;
    map_row<kThreads, kAligned>(from, cols, out + row * cols, [mean, factor, w, b](float value, int64_t c) {
      value = __fmul_rn(__fmul_rn(__fsub_rn(value, mean), factor), w[c]);
      return b == nullptr ? value : __fadd_rn(value, b[c]);
    });
  }
};

struct Steer {
  float* x;
  const float* direction;
  float scale;

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    float* from = x + row * cols;
    const float* d = direction;
    const double dot = sum_of<kThreads, kAligned>(
        from, cols, [d](float sum, float value, int64_t c) { return __fmaf_rn(value, d[c], sum); });
    const auto factor = static_cast<float>(-static_cast<double>(scale) * dot);
    map_row<kThreads, kAligned>(from, cols, from,
                                [factor, d](float value, int64_t c) { return __fmaf_rn(factor, d[c], value); });
  }
};

template <int kThreads, bool kAligned, class Operation>
__global__ void __launch_bounds__(kBlock) row_kernel(Operation operation, int64_t rows, int64_t cols) {
  // A row's threads leave together: they are whole warps, or the whole block.
  const int64_t row = Place<kThreads>().row;
  if (row < rows) operation.template operator()<kThreads, kAligned>(row, cols);
}

template <class Operation>
void for_rows(Launches& stream, const Operation& operation, int64_t rows, int64_t cols, bool aligned) {
  CAIRN_DCHECK(rows <= INT32_MAX);
  if (rows == 0) return;
  if (cols <= kWarpColumns) {
    const auto kernel = aligned ? row_kernel<kWarp, true, Operation> : row_kernel<kWarp, false, Operation>;
    launch(kernel, dim3(blocks_of(rows, kBlock / kWarp, INT32_MAX)), kBlock, 0, stream, operation, rows, cols);
  } else {
    const auto kernel = aligned ? row_kernel<kBlock, true, Operation> : row_kernel<kBlock, false, Operation>;
    launch(kernel, dim3(blocks_of(rows, 1, INT32_MAX)), kBlock, 0, stream, operation, rows, cols);
  }
}

}  // namespace

void rms_norm(Launches& stream, const RmsNormParams& params, int64_t rows, int64_t cols) {
  const auto& [x, added, added_scale, weight, epsilon, out, quantized] = params;
  CAIRN_DCHECK(quantized.codes == nullptr || (quantizes_along(cols) && aligned16(x, out)));
  for_rows(stream, RmsNorm{x, added, added_scale, weight, epsilon, out, quantized}, rows, cols,
           columns_aligned(cols, x, added, out));
}

void layer_norm(Launches& stream, const float* x, const float* weight, const float* bias, float epsilon, int64_t rows,
                int64_t cols, float* out) {
  CAIRN_DCHECK(weight != nullptr);
  for_rows(stream, LayerNorm{x, weight, bias, epsilon, out}, rows, cols, columns_aligned(cols, x, out));
}

void steer(Launches& stream, float* x, const float* direction, float scale, int64_t rows, int64_t cols) {
  for_rows(stream, Steer{x, direction, scale}, rows, cols, columns_aligned(cols, x));
}

}  // namespace cairn::cuda
