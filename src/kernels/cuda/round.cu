// Rows of floats to 16 bits: to nearest, ties to even. bfloat16 has the range of float32. A row of float16 whose
// largest number is beyond kLargest is taken in parts of a power of two, so that no sum of a model that is right is
// lost to an infinity; rows with an infinite or a NaN keep it.
#include <cuda_fp16.h>

#include "base/check.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"

namespace cairn::cuda {
namespace {

constexpr int kBlock = 256;
constexpr float kLargest = 32768;  // 2^15: float16 ends at 65504

__device__ uint32_t bfloat16_of(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;  // a NaN stays one
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// The power of two that brings the row's largest magnitude to kLargest at most; at least 1.
__device__ float scale_of(const float* x, int64_t cols) {
  __shared__ float of_warps[kBlock / kWarp];
  float largest = 0;
  for (int64_t c = threadIdx.x; c < cols; c += kBlock) largest = fmaxf(largest, fabsf(x[c]));
  largest = warp_max(largest);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = largest;
  __syncthreads();
  for (const float other : of_warps) largest = fmaxf(largest, other);
  if (!(largest > kLargest) || largest == INFINITY) return 1;
  // 2^e <= largest < 2^(e + 1), in parts of 2^(e - 14).
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return __uint_as_float(static_cast<uint32_t>(exponent - 14 + 127) << 23);
}

// A block for each row.
template <bool kBfloat>
__global__ void __launch_bounds__(kBlock)
    round_kernel(const float* x, int64_t cols, int64_t padded_cols, HalfRows out) {
  const float* from = x + blockIdx.x * cols;
  uint16_t* to = out.values + blockIdx.x * padded_cols;
  const float scale = kBfloat ? 1.0f : scale_of(from, cols);
  const float inverse = 1.0f / scale;
  for (int64_t c = threadIdx.x; c < padded_cols; c += kBlock) {
    const float value = c < cols ? from[c] : 0.0f;
    to[c] = static_cast<uint16_t>(kBfloat ? bfloat16_of(value)
                                          : __half_as_ushort(__float2half_rn(__fmul_rn(value, inverse))));
  }
  if (threadIdx.x == 0) out.scales[blockIdx.x] = scale;
}

}  // namespace

void round_rows(Launches& stream, TensorType type, const float* x, int64_t rows, int64_t cols, const HalfRows& out) {
  CAIRN_DCHECK(rows > 0 && rows <= INT32_MAX && cols > 0);
  const int64_t padded = (cols + kColumnsPadded - 1) / kColumnsPadded * kColumnsPadded;
  const auto kernel = type == TensorType::kBF16 ? round_kernel<true> : round_kernel<false>;
  launch(kernel, dim3(static_cast<unsigned>(rows)), kBlock, 0, stream, x, cols, padded, out);
}

}  // namespace cairn::cuda
