/// RoPE: rotates heads by their positions.
#include "base/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 128;

// Blocks along x are rows of the table or of heads; those along y divide a row's pairs.
__device__ int32_t first_pair() { return static_cast<int32_t>(blockIdx.y * kBlock + threadIdx.x); }
__device__ int32_t pair_step() { return static_cast<int32_t>(gridDim.y * kBlock); }

__global__ void __launch_bounds__(kBlock)
    table_kernel(const int32_t* positions, const double* frequencies, int32_t pairs, float magnitude, float2* table) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t row = blockIdx.x;
  for (int32_t i = first_pair(); i < pairs; i += pair_step()) {
    const double angle = positions[row] * frequencies[i];
    double sine, cosine;
    sincos(angle, &sine, &cosine);
    const auto wide = static_cast<double>(magnitude);
    table[row * pairs + i] = make_float2(static_cast<float>(wide * cosine), static_cast<float>(wide * sine));
  }
}

// Pair i of a head consists of elements first_of(i) and first_of(i) + apart. The heads of `second` follow those of
// `first`.
template <RopeStyle kStyle>
__global__ void __launch_bounds__(kBlock)
    rope_kernel(const float2* table, int32_t pairs, RopeHeads first, RopeHeads second, int32_t head_dim) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t row = blockIdx.x;
  constexpr bool kNeighbours = kStyle == RopeStyle::kInterleaved;
  const int32_t apart = kNeighbours ? 1 : pairs;
  for (int32_t n = first_pair(); n < (first.heads + second.heads) * pairs; n += pair_step()) {
    const int32_t number = n / pairs, i = n - number * pairs;
    const bool is_first = number < first.heads;
    const int32_t heads = is_first ? first.heads : second.heads;
    const int32_t head = is_first ? number : number - first.heads;
    float* const at = (is_first ? first.x : second.x) + (row * heads + head) * head_dim + (kNeighbours ? 2 * i : i);
    const float a = at[0], b = at[apart];
    const auto [cosine, sine] = table[row * pairs + i];
    // Rounded as on the CPU, without fused multiply-adds.
    at[0] = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
    at[apart] = __fadd_rn(__fmul_rn(a, sine), __fmul_rn(b, cosine));
  }
}

}  // namespace

void rope_table(LaunchQueue& stream, const int32_t* positions, int64_t count, const double* frequencies, int32_t dims,
                float magnitude, float* table) {
  CAIRN_DCHECK(count <= INT32_MAX && dims % 2 == 0);
  const int32_t pairs = dims / 2;
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(count), blocks_of(pairs, kBlock, kGridMax));
  launch_dependent(table_kernel, grid, kBlock, 0, stream, positions, frequencies, pairs, magnitude,
                   reinterpret_cast<float2*>(table));
}

void rope(LaunchQueue& stream, RopeStyle style, const float* table, int32_t dims, std::span<const RopeHeads> rotated,
          int64_t rows, int32_t head_dim) {
  CAIRN_DCHECK(rows <= INT32_MAX && dims % 2 == 0);
  if (rows == 0) return;
  const auto kernel =
      style == RopeStyle::kInterleaved ? rope_kernel<RopeStyle::kInterleaved> : rope_kernel<RopeStyle::kNeoX>;
  for (size_t i = 0; i < rotated.size(); i += 2) {
    const RopeHeads first = rotated[i], second = i + 1 < rotated.size() ? rotated[i + 1] : RopeHeads();
    CAIRN_DCHECK((int64_t{first.heads} + second.heads) * head_dim <= INT32_MAX);
    const int64_t pairs = (int64_t{first.heads} + second.heads) * (dims / 2);
    const dim3 grid(static_cast<unsigned>(rows), blocks_of(pairs, kBlock, kGridMax));
    launch_dependent(kernel, grid, kBlock, 0, stream, reinterpret_cast<const float2*>(table), dims / 2, first, second,
                     head_dim);
  }
}

}  // namespace cairn::kernels::cuda
