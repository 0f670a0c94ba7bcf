// Rows of floats to int8, by the same rule as on the CPU (kernels/cpu/int8_row.h): about maximum / 127 is a block's
// scale, values are rounded to nearest, ties to even. A block with an infinite or a NaN is zeros with the scale NaN.
#include "base/check.h"
#include "kernels/cuda/blocks.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"

namespace cairn::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int64_t kBlocksMax = 1 << 20;
// A block whose absolute maximum is below this is all zeros: 127 / maximum would overflow.
constexpr float kMaximumMin = 1e-30f;
constexpr uint32_t kInfinity = 0x7f800000u;
static_assert(kGroupColumns == kWarp);

// A warp for each group of 32 columns, a lane for each column.
__global__ __launch_bounds__(kWarps* kWarp) void quantize_kernel(const float* x, int64_t cols, int64_t groups_of_row,
                                                                 int64_t groups, Int8Rows out) {
  const auto lane = static_cast<int64_t>(threadIdx.x % kWarp);
  for (int64_t group = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; group < groups;
       group += int64_t{gridDim.x} * kWarps) {
    const int64_t row = group / groups_of_row, column = group % groups_of_row * kGroupColumns + lane;
    const float value = column < cols ? x[row * cols + column] : 0.0f;
    // Magnitudes compare as integers, which puts infinite above finite and NaN above both.
    const uint32_t largest = __reduce_max_sync(kAllLanes, __float_as_uint(value) & 0x7fffffffu);
    const bool finite = largest < kInfinity;
    const float maximum = finite ? __uint_as_float(largest) : 0.0f;
    const bool zero = maximum < kMaximumMin;
    // The mantissa rounded up to two bits, for the sake of the CPU's products: both have the same codes.
    constexpr uint32_t kLowBits = (1u << 21) - 1;
    const uint32_t scale_bits = (__float_as_uint(__fdiv_rn(maximum, 127.0f)) + kLowBits) & ~kLowBits;
    const float scale = zero ? 1.0f : __uint_as_float(scale_bits);
    const float inverse = zero ? 0.0f : __fdiv_rn(1.0f, scale);
    const int code = finite ? __float2int_rn(__fmul_rn(value, inverse)) : 0;
    const int sum = __reduce_add_sync(kAllLanes, code);
    out.codes[group * kGroupColumns + lane] = static_cast<int8_t>(code);
    if (lane == 0) {
      out.scales[group] = finite ? scale : __uint_as_float(kInfinity | 0x400000u);
      out.sums[group] = sum;
    }
  }
}

}  // namespace

void quantize_rows(cudaStream_t stream, const float* x, int64_t rows, int64_t cols, const Int8Rows& out) {
  CAIRN_DCHECK(rows >= 0 && cols > 0);
  if (rows == 0) return;
  const int64_t groups_of_row = (cols + kColumnsPadded - 1) / kColumnsPadded * (kColumnsPadded / kGroupColumns);
  const int64_t groups = rows * groups_of_row;
  launch(quantize_kernel, dim3(blocks_of(groups, kWarps, kBlocksMax)), kWarps * kWarp, 0, stream, x, cols,
         groups_of_row, groups, out);
}

}  // namespace cairn::cuda
