/// Merges the chunks of each row that different blocks have computed.
#pragma once

#include "base/check.h"
#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/elementwise/reduce.cuh"

namespace cairn::cuda {

inline constexpr int kMergeThreads = 128;
static_assert(kChunksMax == kWarp);

struct MergeFactors {
  float keep[kChunksMax];
  float take[kChunksMax];
  float finish;
};

/// Computed by the first warp with a lane for each chunk, with the same result as find_joints chunk by chunk.
__device__ inline void find_factors(const float2* numbers, int32_t count, float sink, MergeFactors& factors) {
  const int lane = threadIdx.x;
  const float2 own = lane < count ? numbers[lane] : make_float2(-INFINITY, 0);
  // The largest score of all chunks up to the lane's.
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

template <class Call>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(Call call) {
  const int64_t row = blockIdx.x;
  const auto head = static_cast<int32_t>(blockIdx.y);
  const SeenPositions seen = call.seen_by_row(row);
  const Chunks chunks = chunks_of(seen, chunk_positions(seen.end - seen.begin));
  const int32_t count = chunks.last - chunks.first + 1;
  const int64_t query = row * call.params.heads + head;
  __shared__ MergeFactors factors;
  if (threadIdx.x < kWarp) {
    const float sink = call.params.sinks == nullptr ? -INFINITY : call.params.sinks[head];
    find_factors(call.pieces.numbers + query * kChunksMax, count, sink, factors);
  }
  __syncthreads();
  const int32_t dim = call.value_dim;
  for (int32_t d = threadIdx.x; d < dim; d += kMergeThreads) {
    const float* pieces = call.pieces.values + query * kChunksMax * dim + d;
    float value = pieces[0];
#pragma unroll 8
    for (int32_t c = 1; c < count; ++c) {
      value = joined(factors.keep[c], value, factors.take[c], pieces[static_cast<int64_t>(c) * dim]);
    }
    call.out[query * dim + d] = __fmul_rn(value, factors.finish);
  }
}

/// Writes `out` from the pieces of each row. `call` has the members of an AttentionCall that are used here; every row
/// sees at least one position.
template <class Call>
void merge_pieces(LaunchQueue& stream, const Call& call) {
  CAIRN_DCHECK(call.params.heads <= kGridMax);
  const dim3 grid(static_cast<unsigned>(call.rows.count), static_cast<unsigned>(call.params.heads));
  launch(merge_kernel<Call>, grid, kMergeThreads, 0, stream, call);
}

}  // namespace cairn::cuda
