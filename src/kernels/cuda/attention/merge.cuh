/// Merges the chunks of each row that different blocks have computed.
#pragma once

#include "base/check.h"
#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kMergeThreads = 128;
static_assert(kChunksMax == kWarp);

/// What joins a chunk to those before it, and the sum of its exponentials.
struct MergeStep {
  float keep;
  float take;
  float total;
};

/// Finds the steps of a query's chunks, with the same numbers as find_joints chunk by chunk, and the largest score of
/// all. Called by a warp, with a lane for each chunk that has its numbers; lanes beyond the last chunk have a largest
/// score of -INFINITY.
__device__ inline void find_steps(float2 own, MergeStep* steps, float& largest_of_all) {
  const int lane = threadIdx.x % kWarp;
  // The largest score of all chunks up to the lane's.
  float largest = own.x;
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const float other = __shfl_up_sync(kAllLanes, largest, apart);
    if (lane >= apart && other > largest) largest = other;
  }
  const float before = __shfl_up_sync(kAllLanes, largest, 1);
  const Joint joint = joint_of(lane == 0 ? own.x : before, own.x);
  steps[lane] = {joint.keep, joint.take, own.y};
  if (lane == kWarp - 1) largest_of_all = largest;
}

/// Blocks along x are rows, along y heads, along z parts of the values' dimensions. All pieces are requested at once,
/// and each thread adds up the exponentials, too, so that nothing waits but for one load and one barrier.
template <class Call>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(Call call) {
  trigger_dependents();
  const int64_t row = blockIdx.x;
  const auto head = static_cast<int32_t>(blockIdx.y);
  // Places are written by copies and not by kernels.
  const SeenPositions seen = call.seen_by_row(row);
  const Chunks chunks = chunks_of(seen, chunk_positions(seen.end - seen.begin));
  const int32_t count = chunks.last - chunks.first + 1;
  const int64_t query = row * call.params.heads + head;
  const int32_t dim = call.value_dim;
  const auto d = static_cast<int32_t>(blockIdx.z * kMergeThreads + threadIdx.x);
  wait_for_dependencies();
  float2 own = make_float2(-INFINITY, 0);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < count) own = call.pieces.numbers[query * kChunksMax + thread];
  const float* from = call.pieces.values + query * kChunksMax * dim + d;
  float pieces[kChunksMax];
#pragma unroll
  for (int c = 0; c < kChunksMax; ++c) {
    pieces[c] = c < count && d < dim ? from[static_cast<int64_t>(c) * dim] : 0.0f;
  }
  __shared__ MergeStep steps[kChunksMax];
  __shared__ float largest;
  if (threadIdx.x < kWarp) find_steps(own, steps, largest);
  __syncthreads();
  if (d >= dim) return;
  float value = pieces[0], total = steps[0].total;
#pragma unroll
  for (int c = 1; c < kChunksMax; ++c) {
    if (c >= count) continue;
    const MergeStep step = steps[c];
    value = joined(step.keep, value, step.take, pieces[c]);
    total = joined(step.keep, total, step.take, step.total);
  }
  const float sink = call.params.sinks == nullptr ? -INFINITY : call.params.sinks[head];
  call.out[query * dim + d] = __fmul_rn(value, finish_factor(largest, total, sink));
}

/// Writes `out` from the pieces of each row. `call` has the members of an AttentionCall that are used here; every row
/// sees at least one position.
template <class Call>
void merge_pieces(LaunchQueue& stream, const Call& call) {
  CAIRN_DCHECK(call.params.heads <= kGridMax);
  const dim3 grid(static_cast<unsigned>(call.rows.count), static_cast<unsigned>(call.params.heads),
                  blocks_of(call.value_dim, kMergeThreads, kGridMax));
  launch_dependent(merge_kernel<Call>, grid, kMergeThreads, 0, stream, call);
}

}  // namespace cairn::kernels::cuda
