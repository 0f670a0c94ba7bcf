/// MoE routing: chooses experts, one warp per row. The expert's index alone determines its lane, so the order of sums
/// follows from the number of experts.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/reduce.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

// Shared memory that a block has by default.
constexpr int64_t kSharedBytesMax = 48 << 10;
// From this argument on softplus(x) is x.
constexpr float kSoftplusLinear = 20;

__device__ int32_t lane() { return static_cast<int32_t>(threadIdx.x); }
// The rank of experts that can no longer be chosen, below all others.
__device__ float excluded() { return -INFINITY; }
// NaN ranks below any number but above what is excluded, so that `used` different experts are chosen whatever the
// logits are.
__device__ float rank_of(float score) { return score > -FLT_MAX ? score : -FLT_MAX; }

// Returns the index of the largest rank, the lowest of several, and excludes it.
__device__ int32_t take_best(float* ranks, int32_t count) {
  int32_t best = lane() < count ? lane() : 0;
  float most = ranks[best];
  for (int32_t i = lane() + kWarp; i < count; i += kWarp) {
    if (ranks[i] > most) {
      most = ranks[i];
      best = i;
    }
  }
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, most, apart);
    const int32_t index = __shfl_xor_sync(kAllLanes, best, apart);
    if (other > most || (other == most && index < best)) {
      most = other;
      best = index;
    }
  }
  __syncwarp();  // all lanes have read
  if (lane() == 0) ranks[best] = excluded();
  __syncwarp();
  return best;
}

__device__ void softmax(const float* logits, int32_t count, float* scores) {
  float most = -INFINITY;
  for (int32_t e = lane(); e < count; e += kWarp) most = fmaxf(most, logits[e]);
  most = warp_max(most);
  double sum = 0;
  for (int32_t e = lane(); e < count; e += kWarp) {
    scores[e] = expf(__fsub_rn(logits[e], most));
    sum += static_cast<double>(scores[e]);
  }
  const auto total = static_cast<float>(warp_sum(sum));
  for (int32_t e = lane(); e < count; e += kWarp) scores[e] = scores[e] / total;
}

__device__ void score_experts(const RouteParams& params, const float* logits, float* scores) {
  switch (params.score) {
    case RouteScore::kSoftmax:
      softmax(logits, params.experts, scores);
      break;
    case RouteScore::kSigmoid:
      for (int32_t e = lane(); e < params.experts; e += kWarp) scores[e] = sigmoid(logits[e]);
      break;
    case RouteScore::kSqrtSoftplus:
      for (int32_t e = lane(); e < params.experts; e += kWarp) {
        scores[e] = sqrtf(logits[e] > kSoftplusLinear ? logits[e] : log1pf(expf(logits[e])));
      }
      break;
    case RouteScore::kSparseMixer:
      for (int32_t e = lane(); e < params.experts; e += kWarp) scores[e] = logits[e];
      break;
  }
  __syncwarp();
}

// A group's rank: its best expert's, or the sum of its two best.
__device__ float rank_of_group(const float* ranks, int32_t count, bool by_best) {
  float best = excluded(), second = excluded();
  for (int32_t i = 0; i < count; ++i) {
    second = fmaxf(second, fminf(best, ranks[i]));
    best = fmaxf(best, ranks[i]);
  }
  return rank_of(count > 1 && !by_best ? __fadd_rn(best, second) : best);
}

__device__ void exclude_groups(const RouteParams& params, float* ranks, float* groups) {
  const int32_t size = params.experts / params.groups;
  for (int32_t g = lane(); g < params.groups; g += kWarp) {
    groups[g] = rank_of_group(ranks + g * size, size, params.groups_by_best);
  }
  __syncwarp();
  for (int32_t i = 0; i < params.groups_used; ++i) take_best(groups, params.groups);
  for (int32_t e = lane(); e < params.groups * size; e += kWarp) {
    if (groups[e / size] != excluded()) ranks[e] = excluded();
  }
  __syncwarp();
}

__device__ void choose_experts(const RouteParams& params, const float* scores, float* ranks, int32_t* ids) {
  for (int32_t e = lane(); e < params.experts; e += kWarp) {
    ranks[e] = rank_of(params.bias == nullptr ? scores[e] : __fadd_rn(scores[e], params.bias[e]));
  }
  __syncwarp();
  if (params.groups > 1) exclude_groups(params, ranks, ranks + params.experts);
  for (int32_t j = 0; j < params.used; ++j) {
    const int32_t best = take_best(ranks, params.experts);
    if (lane() == 0) ids[j] = best;
  }
}

// The share of the last of `count` experts that are chosen among those that were left.
__device__ float sparse_mixer_share(const RouteParams& params, const float* logits, const int32_t* ids, int32_t count) {
  const float best = logits[ids[count - 1]];
  float sum = 0;
  for (int32_t e = 0; e < params.experts; ++e) {
    bool is_left = true;
    for (int32_t i = 0; i + 1 < count; ++i) is_left = is_left && ids[i] != e;
    const float gap = __fsub_rn(best, logits[e]);
    const float near = __fmul_rn(2 * params.jitter, fmaxf(fabsf(logits[e]), best));
    if (is_left && gap <= near) sum = __fadd_rn(sum, expf(-gap));
  }
  return 1.0f / sum;
}

__global__ void __launch_bounds__(kWarp)
    route_kernel(RouteParams params, const float* all_logits, int32_t* all_ids, float* all_weights) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t row = blockIdx.x;
  const float* logits = all_logits + row * params.experts;
  int32_t* ids = all_ids + row * params.used;
  float* weights = all_weights + row * params.used;
  auto* scores = reinterpret_cast<float*>(shared_memory());
  score_experts(params, logits, scores);
  if (!params.given) choose_experts(params, scores, scores + params.experts, ids);
  if (lane() != 0) return;
  // Summed in the order of the choice, as on the CPU.
  float sum = 0;
  for (int32_t j = 0; j < params.used; ++j) {
    const bool mixes = params.score == RouteScore::kSparseMixer;
    weights[j] = mixes ? sparse_mixer_share(params, scores, ids, j + 1) : scores[ids[j]];
    sum = __fadd_rn(sum, weights[j]);
  }
  const float divisor = sum < params.sum_least ? params.sum_least : sum;
  const float factor = params.renormalise ? params.scale / divisor : params.scale;
  for (int32_t j = 0; j < params.used; ++j) weights[j] = __fmul_rn(weights[j], factor);
}

}  // namespace

void route(LaunchQueue& stream, const RouteParams& params, const float* logits, int32_t rows, int32_t* ids,
           float* weights) {
  const int64_t bytes = (int64_t{2} * params.experts + params.groups) * static_cast<int64_t>(sizeof(float));
  CAIRN_DCHECK(params.experts > 0 && bytes <= kSharedBytesMax);
  if (rows == 0) return;
  launch_dependent(route_kernel, dim3(static_cast<unsigned>(rows)), kWarp, static_cast<size_t>(bytes), stream, params,
                   logits, ids, weights);
}

}  // namespace cairn::kernels::cuda
