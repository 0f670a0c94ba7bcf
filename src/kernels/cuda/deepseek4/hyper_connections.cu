/// Hyper-connections: their weights, and the mixing of the residual streams.
#include <cmath>

#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/columns.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

// One thread for each element of the matrix that mixes the streams.
constexpr int kMixThreads = kStreamsMax * kStreamsMax;
constexpr int kGateThreads = 256;

// Divides each element of the matrix by `first` plus the sum of its n elements from `begin` on, `stride` apart.
__device__ void divide_by_sum(float* matrix, bool inside, int32_t begin, int32_t stride, int32_t n, float first) {
  float sum = first;
  for (int32_t i = 0; inside && i < n; ++i) sum = __fadd_rn(sum, matrix[begin + i * stride]);
  __syncthreads();  // all threads have read
  if (inside) matrix[threadIdx.x] = matrix[threadIdx.x] / sum;
  __syncthreads();
}

// One block for each row.
__global__ void __launch_bounds__(kMixThreads) mix_kernel(StreamParams params, const float* logits, float* shares) {
  const int32_t n = params.streams, all = n * (2 + n), i = threadIdx.x;
  const float* from = logits + int64_t{blockIdx.x} * all;
  float* to = shares + int64_t{blockIdx.x} * all;
  if (i < n) {
    const float in = sigmoid(__fadd_rn(__fmul_rn(from[i], params.scale[0]), params.base[i]));
    const float out = sigmoid(__fadd_rn(__fmul_rn(from[n + i], params.scale[1]), params.base[n + i]));
    to[i] = __fadd_rn(in, params.epsilon);
    to[n + i] = __fmul_rn(2, out);
  }
  __shared__ float matrix[kMixThreads];
  const bool inside = i < n * n;
  const int32_t row = i / n * n, column = i % n;
  const int32_t at = 2 * n + i;
  if (inside) matrix[i] = __fadd_rn(__fmul_rn(from[at], params.scale[2]), params.base[at]);
  __syncthreads();
  float largest = -INFINITY;
  for (int32_t k = 0; inside && k < n; ++k) largest = fmaxf(largest, matrix[row + k]);
  __syncthreads();
  if (inside) matrix[i] = expf(__fsub_rn(matrix[i], largest));
  __syncthreads();
  divide_by_sum(matrix, inside, row, 1, n, 0);
  if (inside) matrix[i] = __fadd_rn(matrix[i], params.epsilon);
  __syncthreads();
  for (int32_t round = 0; round < params.rounds; ++round) {
    if (round > 0) divide_by_sum(matrix, inside, row, 1, n, params.epsilon);
    divide_by_sum(matrix, inside, column, n, n, params.epsilon);
  }
  if (inside) to[at] = matrix[i];
}

__global__ void __launch_bounds__(kGateThreads)
    gate_kernel(StreamParams params, const float* logits, int64_t n, float* shares) {
  const int64_t at = int64_t{blockIdx.x} * kGateThreads + threadIdx.x;
  if (at >= n) return;
  const float x = __fadd_rn(__fmul_rn(logits[at], params.scale[0]), params.base[at % params.streams]);
  shares[at] = __fadd_rn(sigmoid(x), params.epsilon);
}

// Processes all streams of some columns.
template <bool kAligned>
struct Expand {
  const float* x;
  const float* y;
  const float* shares;
  int32_t streams;
  int64_t cols;
  float* out;
  __device__ void operator()(int64_t row, int64_t column, int64_t count) const {
    const float* takes = shares + row * streams * (2 + streams) + streams;
    const float* mix = takes + streams;
    const Four added = load_four<kAligned>(y + row * cols + column, count);
    for (int32_t to = 0; to < streams; ++to) {
      Four sum{};
      for (int32_t from = 0; from < streams; ++from) {
        const Four value = load_four<kAligned>(x + (row * streams + from) * cols + column, count);
        const float weight = mix[from * streams + to];
#pragma unroll
        for (int k = 0; k < 4; ++k) sum.at[k] = __fmaf_rn(weight, value.at[k], sum.at[k]);
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) sum.at[k] = __fmaf_rn(takes[to], added.at[k], sum.at[k]);
      store_four<kAligned>(sum, count, out + (row * streams + to) * cols + column);
    }
  }
};

}  // namespace

void hyper_connection_weights(LaunchQueue& stream, const StreamParams& params, const float* logits, int64_t rows,
                              float* shares) {
  CAIRN_DCHECK(params.streams > 0 && params.streams <= kStreamsMax && rows <= INT32_MAX);
  if (rows == 0) return;
  launch(mix_kernel, dim3(static_cast<unsigned>(rows)), kMixThreads, 0, stream, params, logits, shares);
}

void gate_streams(LaunchQueue& stream, const StreamParams& params, const float* logits, int64_t rows, float* shares) {
  const int64_t n = rows * params.streams;
  if (n == 0) return;
  launch(gate_kernel, dim3(blocks_of(n, kGateThreads, INT32_MAX)), kGateThreads, 0, stream, params, logits, n, shares);
}

void hyper_connection_write(LaunchQueue& stream, const float* x, const float* y, const float* shares, int32_t streams,
                            int64_t rows, int64_t cols, float* out) {
  if (columns_aligned(cols, x, y, out)) {
    for_columns(stream, Expand<true>{x, y, shares, streams, cols, out}, rows, cols);
  } else {
    for_columns(stream, Expand<false>{x, y, shares, streams, cols, out}, rows, cols);
  }
}

}  // namespace cairn::kernels::cuda
