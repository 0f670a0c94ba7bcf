/// Compressed KV rows, each standing for several positions, and the simulated quantisation with which models were
/// trained.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "kernels/cuda/elementwise/reduce.cuh"
#include "kernels/cuda/mla/latent_row.cuh"
#include "kernels/simulated_rounding.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 128;
constexpr int kWarps = kBlock / kWarp;

struct Call {
  CompressorParams params;
  LatentPages values;
  LatentPages scores;
  Rows rows;
  float* out = nullptr;
};

// The contributions of a row's positions.
struct Inputs {
  const float* values[kCompressorSpanMax];
  const float* scores[kCompressorSpanMax];
  const float* biases[kCompressorSpanMax];
};

// Finds the inputs of the row that `place` completes; returns their number. Called by all threads of the block.
__device__ int32_t find_inputs(const Call& call, const TokenPlace& place, Inputs& inputs) {
  const int32_t ratio = call.params.ratio, dim = call.params.dim;
  const int32_t width = call.params.overlapping ? 2 * dim : dim;
  const int32_t end = place.position + 1, own = end - ratio;
  const int32_t begin = call.params.overlapping ? max(own - ratio, 0) : own;
  const int32_t* pages = call.rows.pages + place.pages_begin;
  for (int32_t i = threadIdx.x; i < end - begin; i += kBlock) {
    const int32_t position = begin + i;
    const int32_t half = call.params.overlapping && position >= own ? dim : 0;
    inputs.values[i] = reinterpret_cast<const float*>(call.values.row(pages, position)) + half;
    inputs.scores[i] = reinterpret_cast<const float*>(call.scores.row(pages, position)) + half;
    inputs.biases[i] = call.params.biases + static_cast<int64_t>(position % ratio) * width + half;
  }
  __syncthreads();
  return end - begin;
}

// Blocks along x are the batch's rows, along y columns of the rows that they complete.
__global__ void __launch_bounds__(kBlock) compress_kernel(Call call) {
  __shared__ Inputs inputs;
  const auto number = static_cast<int32_t>(blockIdx.x);
  const TokenPlace place = call.rows.places[number];
  if (!completes(place, call.params.ratio)) return;
  const int64_t before = completed_before(call.rows, number, call.params.ratio);
  const int32_t count = find_inputs(call, place, inputs);
  const int32_t dim = call.params.dim;
  for (auto d = static_cast<int32_t>(blockIdx.y * kBlock + threadIdx.x); d < dim;
       d += static_cast<int32_t>(gridDim.y) * kBlock) {
    float largest = -INFINITY;
    for (int32_t i = 0; i < count; ++i) largest = fmaxf(largest, __fadd_rn(inputs.scores[i][d], inputs.biases[i][d]));
    float sum = 0, total = 0;
    for (int32_t i = 0; i < count; ++i) {
      const float score = __fadd_rn(inputs.scores[i][d], inputs.biases[i][d]);
      const float weight = expf(__fsub_rn(score, largest));
      total = __fadd_rn(total, weight);
      sum = __fmaf_rn(weight, inputs.values[i][d], sum);
    }
    call.out[before * dim + d] = sum / total;
  }
}

// Rounds up to format.block elements; called by a whole warp.
__device__ void round_block(const SimulatedFormat& format, float* x, int32_t n) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  float largest = 0;
  for (int32_t i = lane; i < n; i += kWarp) largest = fmaxf(largest, fabsf(x[i]));
  const float scale = simulated_scale(format, warp_max(largest));
  for (int32_t i = lane; i < n; i += kWarp) x[i] = simulated_rounded(format, scale, x[i]);
}

// One warp for each block of format.block elements of a row.
__global__ void __launch_bounds__(kBlock)
    round_kernel(SimulatedFormat format, float* x, int64_t rows, int64_t stride, int32_t dims) {
  const int32_t blocks = (dims + format.block - 1) / format.block;
  const int64_t number = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (number >= rows * blocks) return;
  const auto begin = static_cast<int32_t>(number % blocks) * format.block;
  round_block(format, x + number / blocks * stride + begin, min(format.block, dims - begin));
}

// One block for each row.
__global__ void __launch_bounds__(kBlock)
    hadamard_kernel(SimulatedFormat format, float* all, int32_t dims, float factor) {
  auto* x = reinterpret_cast<float*>(shared_memory());
  float* row = all + int64_t{blockIdx.x} * dims;
  for (int32_t i = threadIdx.x; i < dims; i += kBlock) x[i] = row[i];
  for (int32_t half = 1; half < dims; half *= 2) {
    __syncthreads();
    for (int32_t pair = threadIdx.x; pair < dims / 2; pair += kBlock) {
      const int32_t i = pair / half * 2 * half + pair % half;
      const float a = x[i], b = x[i + half];
      x[i] = __fadd_rn(a, b);
      x[i + half] = __fsub_rn(a, b);
    }
  }
  __syncthreads();
  for (int32_t i = threadIdx.x; i < dims; i += kBlock) x[i] = __fmul_rn(x[i], factor);
  __syncthreads();
  const auto warp = static_cast<int32_t>(threadIdx.x) / kWarp;
  for (int32_t begin = warp * format.block; begin < dims; begin += kWarps * format.block) {
    round_block(format, x + begin, min(format.block, dims - begin));
  }
  __syncthreads();
  for (int32_t i = threadIdx.x; i < dims; i += kBlock) row[i] = x[i];
}

}  // namespace

void compress(LaunchQueue& stream, const CompressorParams& params, const KvView& values, const KvView& scores,
              const Rows& rows, float* out) {
  for (const KvView* view : {&values, &scores}) {
    CAIRN_DCHECK(view->type == KvType::kF32 && view->key_dim == params.width() && view->tokens_per_row == 1);
  }
  CAIRN_DCHECK(params.span() <= kCompressorSpanMax);
  if (rows.count == 0) return;
  const Call call{params, LatentPages(values), LatentPages(scores), rows, out};
  const dim3 grid(static_cast<unsigned>(rows.count), blocks_of(params.dim, kBlock, kGridMax));
  launch(compress_kernel, grid, kBlock, 0, stream, call);
}

void round_fp8(LaunchQueue& stream, float* x, int64_t rows, int64_t stride, int32_t dims) {
  const int64_t blocks = rows * ((dims + kSimulatedE4m3.block - 1) / kSimulatedE4m3.block);
  if (blocks == 0) return;
  launch(round_kernel, dim3(blocks_of(blocks, kWarps, INT32_MAX)), kBlock, 0, stream, kSimulatedE4m3, x, rows, stride,
         dims);
}

void hadamard_fp4(LaunchQueue& stream, float* x, int64_t rows, int32_t dims) {
  CAIRN_CHECK(dims > 0 && dims <= kHadamardMax && std::has_single_bit(static_cast<uint32_t>(dims)));
  if (rows == 0) return;
  const float factor = 1 / std::sqrt(static_cast<float>(dims));
  launch(hadamard_kernel, dim3(static_cast<unsigned>(rows)), kBlock, static_cast<size_t>(dims) * sizeof(float), stream,
         kSimulatedE2m1, x, dims, factor);
}

}  // namespace cairn::kernels::cuda
