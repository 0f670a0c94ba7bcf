/// Joins the chunks of each row that different blocks have attended to.
#include "base/check.h"
#include "kernels/cuda/attention_call.cuh"
#include "kernels/cuda/attention_merge.h"
#include "kernels/cuda/reduce.cuh"

namespace cairn::cuda {
namespace {

constexpr int kBlock = 128;
static_assert(kChunksMax == kWarp);

struct Factors {
  float keep[kChunksMax];
  float take[kChunksMax];
  float finish;
};

// The first warp, a lane for each chunk: what attention_kernel finds chunk by chunk.
__device__ void find_factors(const float2* numbers, int32_t count, float sink, Factors& factors) {
  const int lane = threadIdx.x;
  const float2 own = lane < count ? numbers[lane] : make_float2(-INFINITY, 0);
  // The largest of all chunks up to the lane's.
  float largest = own.x;
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const float other = __shfl_up_sync(kAllLanes, largest, apart);
    if (lane >= apart && other > largest) largest = other;
  }
  const float before = __shfl_up_sync(kAllLanes, largest, 1);
  const Joint joint = joint_of(lane == 0 ? own.x : before, own.x);
  float total = __shfl_sync(kAllLanes, own.y, 0);
  for (int32_t c = 1; c < count; ++c) {
    total = joined(__shfl_sync(kAllLanes, joint.keep, c), total, __shfl_sync(kAllLanes, joint.take, c),
                   __shfl_sync(kAllLanes, own.y, c));
  }
  factors.keep[lane] = joint.keep;
  factors.take[lane] = joint.take;
  if (lane == count - 1) factors.finish = finish_factor(largest, total, sink);
}

__global__ void __launch_bounds__(kBlock) merge_kernel(AttentionCall call) {
  const int64_t row = blockIdx.x;
  const auto head = static_cast<int32_t>(blockIdx.y);
  const SeenPositions seen = seen_by(call.params, call.rows.places[row], 0);
  const Chunks chunks = chunks_of(seen, chunk_positions(seen.end - seen.begin));
  const int32_t count = chunks.last - chunks.first + 1;
  const int64_t query = row * call.params.heads + head;
  __shared__ Factors factors;
  if (threadIdx.x < kWarp) {
    const float sink = call.params.sinks == nullptr ? -INFINITY : call.params.sinks[head];
    find_factors(call.pieces.numbers + query * kChunksMax, count, sink, factors);
  }
  __syncthreads();
  const int32_t dim = call.value_dim;
  for (int32_t d = threadIdx.x; d < dim; d += kBlock) {
    const float* pieces = call.pieces.values + query * kChunksMax * dim + d;
    float value = pieces[0];
#pragma unroll 8
    for (int32_t c = 1; c < count; ++c) {
      value = joined(factors.keep[c], value, factors.take[c], pieces[static_cast<int64_t>(c) * dim]);
    }
    call.out[query * dim + d] = __fmul_rn(value, factors.finish);
  }
}

}  // namespace

void merge_pieces(cudaStream_t stream, const AttentionCall& call) {
  CAIRN_DCHECK(call.params.heads <= kGridMax);
  const dim3 grid(static_cast<unsigned>(call.rows.count), static_cast<unsigned>(call.params.heads));
  launch(merge_kernel, grid, kBlock, 0, stream, call);
}

}  // namespace cairn::cuda
