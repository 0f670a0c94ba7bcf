#include "kernels/cuda/matmul/peak.h"

#include "kernels/cuda/matmul/mma.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kSums = 8;  // independent accumulators of a warp

__global__ void __launch_bounds__(kPeakThreads) peak_kernel(int32_t rounds, float* out) {
  const uint32_t number = blockIdx.x * kPeakThreads + threadIdx.x;
  const uint32_t a[4] = {number, number + 1, number + 2, number + 3}, b[2] = {number + 4, number + 5};
  float sums[kSums][4] = {};
  for (int32_t round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) multiply_bf16(a, b, sums[i]);
  }
  float all = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
#pragma unroll
    for (int k = 0; k < 4; ++k) all += sums[i][k];
  }
  out[number] = all;
}

}  // namespace

int64_t peak_operations(const PeakWork& work) {
  const int64_t of_product = int64_t{2} * 16 * 8 * 16;
  return of_product * kSums * work.rounds * work.blocks * (kPeakThreads / kWarp);
}

void multiply_registers(LaunchQueue& stream, const PeakWork& work, float* out) {
  launch(peak_kernel, dim3(static_cast<unsigned>(work.blocks)), kPeakThreads, 0, stream, work.rounds, out);
}

}  // namespace cairn::kernels::cuda
