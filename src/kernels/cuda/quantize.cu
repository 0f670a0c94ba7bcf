// Rows of floats to int8.
#include "base/check.h"
#include "kernels/cuda/quantize.cuh"

namespace cairn::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int64_t kBlocksMax = 1 << 20;
static_assert(kGroupColumns == kWarp);

// A warp for each group of 32 columns, a lane for each column.
__global__ __launch_bounds__(kWarps* kWarp) void quantize_kernel(const float* x, int64_t cols, int64_t groups_of_row,
                                                                 int64_t groups, Int8Rows out) {
  const auto lane = static_cast<int64_t>(threadIdx.x % kWarp);
  for (int64_t group = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; group < groups;
       group += int64_t{gridDim.x} * kWarps) {
    const int64_t row = group / groups_of_row, column = group % groups_of_row * kGroupColumns + lane;
    const float value = column < cols ? x[row * cols + column] : 0.0f;
    const Int8Scale scale(__reduce_max_sync(kAllLanes, Int8Scale::magnitude(value)));
    const int code = scale.code(value);
    const int sum = __reduce_add_sync(kAllLanes, code);
    out.codes[group * kGroupColumns + lane] = static_cast<int8_t>(code);
    if (lane == 0) {
      out.scales[group] = scale.scale();
      out.sums[group] = sum;
    }
  }
}

}  // namespace

void quantize_rows(Launches& stream, const float* x, int64_t rows, int64_t cols, const Int8Rows& out) {
  CAIRN_DCHECK(rows >= 0 && cols > 0);
  if (rows == 0) return;
  const int64_t groups_of_row = (cols + kColumnsPadded - 1) / kColumnsPadded * (kColumnsPadded / kGroupColumns);
  const int64_t groups = rows * groups_of_row;
  launch(quantize_kernel, dim3(blocks_of(groups, kWarps, kBlocksMax)), kWarps * kWarp, 0, stream, x, cols,
         groups_of_row, groups, out);
}

}  // namespace cairn::cuda
