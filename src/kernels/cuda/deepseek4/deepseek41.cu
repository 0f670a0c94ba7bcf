/// DeepSeek V4.1: what engrams add to the residual streams, and rows rounded to numbers of few bits.
#include <cmath>

#include "base/check.h"
#include "kernels/cuda/elementwise/reduce.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/simulated_rounding.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kEngramThreads = 256;
constexpr int kEngramWarps = kEngramThreads / kWarp;
constexpr int kRoundThreads = 128;
constexpr int kRoundWarps = kRoundThreads / kWarp;

// The sums are in double, as on the CPU: a gate is steep where the product of query and key is near zero.
struct EngramSums {
  double product = 0;  // of query and key, both weighted
  double queries = 0;  // squares
  double keys = 0;
};

__device__ EngramSums warp_sums(const EngramSums& own) {
  return {warp_sum(own.product), warp_sum(own.queries), warp_sum(own.keys)};
}

__device__ float engram_gate(const EngramSums& sums, double epsilon, int64_t cols) {
  constexpr double kLeast = 1e-6;
  const auto n = static_cast<double>(cols);
  const double norms = sqrt((sums.queries / n + epsilon) * (sums.keys / n + epsilon));
  const double d = sums.product / norms / sqrt(n);
  const double root = sqrt(fmax(fabs(d), kLeast));
  return static_cast<float>(1 / (1 + exp(d > 0 ? -root : (d < 0 ? root : 0.0))));
}

// One block for each stream of each row.
__global__ void __launch_bounds__(kEngramThreads)
    engram_kernel(EngramParams params, const float* keys_value, int64_t cols, float* all) {
  __shared__ EngramSums of_warps[kEngramWarps];
  __shared__ float gate;
  const int64_t row = blockIdx.x / params.streams, stream = blockIdx.x % params.streams;
  const float* keys = keys_value + (row * (params.streams + 1) + stream) * cols;
  const float* value = keys_value + (row * (params.streams + 1) + params.streams) * cols;
  const float* query_norm = params.query_norm + stream * cols;
  const float* key_norm = params.key_norm + stream * cols;
  float* x = all + int64_t{blockIdx.x} * cols;
  EngramSums own;
  for (int64_t i = threadIdx.x; i < cols; i += kEngramThreads) {
    const double q = x[i], k = keys[i];
    own.product = add_rounded(own.product, q * query_norm[i] * k * key_norm[i]);
    own.queries = add_rounded(own.queries, q * q);
    own.keys = add_rounded(own.keys, k * k);
  }
  own = warp_sums(own);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    const EngramSums sums = warp_sums(threadIdx.x < kEngramWarps ? of_warps[threadIdx.x] : EngramSums{});
    if (threadIdx.x == 0) gate = engram_gate(sums, params.epsilon, cols);
  }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < cols; i += kEngramThreads) x[i] = __fmaf_rn(gate, value[i], x[i]);
}

// One warp for each 32 elements of a row, which are one block of numbers or several.
__global__ void __launch_bounds__(kRoundThreads)
    round_kernel(BlockRounding rounding, float* x, int64_t rows, int32_t dims) {
  const int32_t warps = (dims + kWarp - 1) / kWarp;  // of a row
  const int64_t number = int64_t{blockIdx.x} * kRoundWarps + threadIdx.x / kWarp;
  if (number >= rows * warps) return;
  const auto column = static_cast<int32_t>(number % warps * kWarp + threadIdx.x % kWarp);
  float* at = x + number / warps * dims + column;
  const bool inside = column < dims;
  const float own = inside ? *at : 0.0f;
  float largest = fmaxf(0.0f, fabsf(own));
  for (int32_t apart = 1; apart < rounding.numbers.block; apart *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, apart));
  }
  if (inside) *at = simulated_rounded(rounding.numbers, block_scale(rounding, largest), own);
}

}  // namespace

void add_engram(LaunchQueue& stream, const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols,
                float* x) {
  const int64_t blocks = rows * params.streams;
  CAIRN_DCHECK(blocks <= INT32_MAX);
  if (blocks == 0) return;
  launch(engram_kernel, dim3(static_cast<unsigned>(blocks)), kEngramThreads, 0, stream, params, keys_value, cols, x);
}

void round_rows(LaunchQueue& stream, SimulatedRounding rounding, float* x, int64_t rows, int32_t dims) {
  const BlockRounding blocks = block_rounding(rounding);
  CAIRN_DCHECK(kWarp % blocks.numbers.block == 0);
  const int64_t warps = rows * ((dims + kWarp - 1) / kWarp);
  if (warps == 0) return;
  launch(round_kernel, dim3(blocks_of(warps, kRoundWarps, INT32_MAX)), kRoundThreads, 0, stream, blocks, x, rows, dims);
}

}  // namespace cairn::kernels::cuda
