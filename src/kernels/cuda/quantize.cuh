/// Numbers to int8, by the same rule as on the CPU (kernels/cpu/int8_row.h): about maximum / 127 is a block's scale,
/// values are rounded to nearest, ties to even. A block with an infinite or a NaN is zeros with the scale NaN.
#pragma once

#include <cstdint>

#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/four.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace cairn::cuda {

/// Of the 32 columns of a group.
class Int8Scale {
 public:
  /// `largest`: of their magnitudes, which compare as integers: infinite above finite and NaN above both.
  __device__ explicit Int8Scale(uint32_t largest) : finite_(largest < kInfinity) {
    const float maximum = finite_ ? __uint_as_float(largest) : 0.0f;
    const bool zero = maximum < kMaximumMin;
    // The mantissa rounded up to two bits, for the sake of the CPU's products: both have the same codes.
    constexpr uint32_t kLowBits = (1u << 21) - 1;
    const uint32_t bits = (__float_as_uint(__fdiv_rn(maximum, 127.0f)) + kLowBits) & ~kLowBits;
    scale_ = zero ? 1.0f : __uint_as_float(bits);
    inverse_ = zero ? 0.0f : __fdiv_rn(1.0f, scale_);
  }
  __device__ static uint32_t magnitude(float value) { return __float_as_uint(value) & 0x7fffffffu; }
  __device__ int code(float value) const { return finite_ ? __float2int_rn(__fmul_rn(value, inverse_)) : 0; }
  __device__ float scale() const { return finite_ ? scale_ : __uint_as_float(kInfinity | 0x400000u); }

 private:
  // A group whose absolute maximum is below this is all zeros: 127 / maximum would overflow.
  static constexpr float kMaximumMin = 1e-30f;
  static constexpr uint32_t kInfinity = 0x7f800000u;

  bool finite_;
  float scale_;
  float inverse_;
};

/// A warp together: each lane has four neighbouring columns, the lanes one after the other. `at`: number of the lane's
/// first element, in rows without padding.
__device__ inline void quantize_four(const Four& values, int64_t at, const Int8Rows& out) {
  constexpr int kLanes = kGroupColumns / 4;  // of a group
  uint32_t largest = 0;
#pragma unroll
  for (const float value : values.at) largest = max(largest, Int8Scale::magnitude(value));
#pragma unroll
  for (int apart = 1; apart < kLanes; apart *= 2) {
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, apart));
  }
  const Int8Scale scale(largest);
  uint32_t codes = 0;
  int sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int code = scale.code(values.at[k]);
    codes |= static_cast<uint32_t>(code & 0xff) << (8 * k);
    sum += code;
  }
#pragma unroll
  for (int apart = 1; apart < kLanes; apart *= 2) sum += __shfl_xor_sync(kAllLanes, sum, apart);
  *reinterpret_cast<uint32_t*>(out.codes + at) = codes;
  if (at % kGroupColumns == 0) {
    out.scales[at / kGroupColumns] = scale.scale();
    out.sums[at / kGroupColumns] = sum;
  }
}

/// Whether an operation on rows of `cols`, one behind the other, may write Int8Rows beside its output.
inline bool quantizes_along(int64_t cols) { return cols % kColumnsPadded == 0; }

}  // namespace cairn::cuda
