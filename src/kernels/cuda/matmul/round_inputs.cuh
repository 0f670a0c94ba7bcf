/// Rows of floats to 16 bits: to nearest, ties to even. bfloat16 has the range of float32. A row of float16 whose
/// largest number is beyond kLargestHalf is divided by a power of two, so that large but finite activations do not
/// become infinite; infinities and NaN are kept.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/elementwise/row_kernel.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/weights/bfloat16.cuh"

namespace cairn::cuda {

inline constexpr float kLargestHalf = 32768;  // 2^15: float16 ends at 65504

/// The power of two, at least 1, by which a row with this largest magnitude is divided to be at most kLargestHalf.
__device__ __forceinline__ float half_row_scale(float largest) {
  if (!(largest > kLargestHalf) || largest == INFINITY) return 1;
  // With 2^e <= largest < 2^(e + 1), the row is divided by 2^(e - 14).
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return __uint_as_float(static_cast<uint32_t>(exponent - 14 + 127) << 23);
}

/// Called by a row's threads together: `from` begins the row, of which each thread reads its own columns
/// (elementwise/row_kernel.cuh), and whose largest magnitude is `largest`.
template <int kThreads, bool kAligned>
__device__ void round_row(const float* from, int64_t row, int64_t cols, float largest, const HalfRows& out) {
  using P = RowPart<kThreads>;
  const int64_t padded = padded_columns(cols);
  const float scale = out.bfloat ? 1.0f : half_row_scale(row_max<kThreads>(largest));
  const float inverse = 1.0f / scale;
  uint16_t* const to = out.values + row * padded;
  for (int64_t c = P().first; c < padded; c += P::kStep) {
    Four four{};
    if (c < cols) four = load_four<kAligned>(from + c, cols - c);
    uint32_t bits[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      bits[k] = out.bfloat ? bfloat16_of(four.at[k])
                           : uint32_t{__half_as_ushort(__float2half_rn(__fmul_rn(four.at[k], inverse)))};
    }
    *reinterpret_cast<uint2*>(to + c) = make_uint2(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
  }
  if (P().first == 0) out.scales[row] = scale;
}

}  // namespace cairn::cuda
