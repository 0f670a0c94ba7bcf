/// Rows of floats to 16 bits: to nearest, ties to even. bfloat16 has the range of float32. A row of float16 whose
/// largest number is beyond kLargestHalf is divided by a power of two, so that large but finite activations do not
/// become infinite; infinities and NaN are kept.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/elementwise/global_memory.cuh"
#include "kernels/cuda/elementwise/row_kernel.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/weights/bfloat16.cuh"

namespace cairn::kernels::cuda {

inline constexpr float kLargestHalf = 32768;  // 2^15: float16 ends at 65504

/// The power of two, at least 1, by which a row with this largest magnitude is divided to be at most kLargestHalf.
__device__ __forceinline__ float half_row_scale(float largest) {
  if (!(largest > kLargestHalf) || largest == INFINITY) return 1;
  // With 2^e <= largest < 2^(e + 1), the row is divided by 2^(e - 14).
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return __uint_as_float(static_cast<uint32_t>(exponent - 14 + 127) << 23);
}

/// The rounded numbers in a word.
__device__ __forceinline__ uint32_t two_halves(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return uint32_t{__half_as_ushort(both.x)} | uint32_t{__half_as_ushort(both.y)} << 16;
}

/// Called by a row's threads together: writes the row and the zeros that pad it, divided by the power of two `scale`.
template <class Part>
__device__ void store_halves(const Part& part, const RowValues<Part>& values, float scale, bool bfloat, uint16_t* to) {
  // The reciprocal of the scale, exact as that is a power of two.
  const float inverse = __uint_as_float((254u << 23) - __float_as_uint(scale));
  part.for_fours(static_cast<int32_t>(padded_columns(part.cols())), [&](int i) {
    Four four{};
    if (part.has(i)) four = values.get(part, i);
    uint2 words;
    if (bfloat) {
      words = make_uint2(bfloat16_of(four.at[0]) | bfloat16_of(four.at[1]) << 16,
                         bfloat16_of(four.at[2]) | bfloat16_of(four.at[3]) << 16);
    } else {
#pragma unroll
      for (float& value : four.at) value = __fmul_rn(value, inverse);
      words = make_uint2(two_halves(four.at[0], four.at[1]), two_halves(four.at[2], four.at[3]));
    }
    store_whole(words, to + part.column(i));
  });
}

/// Writes the row with the part's number, and its scale.
template <class Part>
__device__ void store_halves(const Part& part, const RowValues<Part>& values, float scale, const HalfRows& out) {
  store_halves(part, values, scale, out.bfloat, out.values + part.row() * padded_columns(part.cols()));
  if (part.is_first()) out.scales[part.row()] = scale;
}

/// The largest magnitude of the thread's values; NaN does not count.
template <class Part>
__device__ float largest_of(const Part& part, const RowValues<Part>& values) {
  float largest = 0;
  part.for_fours([&](int i) {
    const Four four = values.get(part, i);
#pragma unroll
    for (const float value : four.at) largest = fmaxf(largest, fabsf(value));
  });
  return largest;
}

/// Called by a row's threads together, whose own largest magnitudes are `largest`. `kCall` as in row_largest().
template <int kCall = 0, class Part>
__device__ void round_row(const Part& part, const RowValues<Part>& values, float largest, const HalfRows& out) {
  store_halves(part, values, out.bfloat ? 1.0f : half_row_scale(row_largest<Part::kThreads, kCall>(largest)), out);
}

}  // namespace cairn::kernels::cuda
