#include "kernels/cpu/rows/moe_route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace cairn::kernels::cpu {
namespace {

// The rank of experts that can no longer be chosen, below all others.
constexpr float kExcluded = -std::numeric_limits<float>::infinity();
// From this argument on softplus(x) is x.
constexpr float kSoftplusLinear = 20;

// NaN ranks below any number but above what is excluded, so that `used` different experts are chosen whatever the
// logits are.
float rank_of(float score) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  return score > kLeast ? score : kLeast;
}

int32_t take_best(float* ranks, int32_t count) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; ++i) best = ranks[i] > ranks[best] ? i : best;
  ranks[best] = kExcluded;
  return best;
}

void score_experts(const RowKernels& kernels, const RouteParams& params, const float* logits, float* scores) {
  switch (params.score) {
    case RouteScore::kSoftmax:
      kernels.softmax(logits, params.experts, scores);
      return;
    case RouteScore::kSigmoid:
      for (int32_t e = 0; e < params.experts; ++e) scores[e] = 1 / (1 + std::exp(-logits[e]));
      return;
    case RouteScore::kSqrtSoftplus:
      for (int32_t e = 0; e < params.experts; ++e) {
        scores[e] = std::sqrt(logits[e] > kSoftplusLinear ? logits[e] : std::log1p(std::exp(logits[e])));
      }
      return;
    case RouteScore::kSparseMixer:
      std::copy_n(logits, params.experts, scores);
      return;
  }
}

// A group's rank: its best expert's, or the sum of its two best.
float rank_of_group(const float* ranks, int32_t count, bool by_best) {
  float best = kExcluded, second = kExcluded;
  for (int32_t i = 0; i < count; ++i) {
    second = std::max(second, std::min(best, ranks[i]));
    best = std::max(best, ranks[i]);
  }
  return rank_of(count > 1 && !by_best ? best + second : best);
}

void exclude_groups(const RouteParams& params, float* ranks, float* groups) {
  const int32_t size = params.experts / params.groups;
  for (int32_t g = 0; g < params.groups; ++g) {
    groups[g] = rank_of_group(ranks + int64_t{g} * size, size, params.groups_by_best);
  }
  for (int32_t i = 0; i < params.groups_used; ++i) take_best(groups, params.groups);
  for (int32_t g = 0; g < params.groups; ++g) {
    if (groups[g] != kExcluded) std::fill_n(ranks + int64_t{g} * size, size, kExcluded);
  }
}

void choose_experts(const RouteParams& params, const float* scores, float* ranks, int32_t* ids) {
  for (int32_t e = 0; e < params.experts; ++e) {
    ranks[e] = rank_of(params.bias == nullptr ? scores[e] : scores[e] + params.bias[e]);
  }
  if (params.groups > 1) exclude_groups(params, ranks, ranks + params.experts);
  for (int32_t j = 0; j < params.used; ++j) ids[j] = take_best(ranks, params.experts);
}

// The share of the last of `chosen` experts among those that were left.
float sparse_mixer_share(const RouteParams& params, const float* logits, std::span<const int32_t> chosen) {
  const float best = logits[chosen.back()];
  const auto before = chosen.first(chosen.size() - 1);
  float sum = 0;
  for (int32_t e = 0; e < params.experts; ++e) {
    if (std::ranges::find(before, e) != before.end()) continue;
    const float gap = best - logits[e];
    if (gap <= 2 * params.jitter * std::max(std::abs(logits[e]), best)) sum += std::exp(-gap);
  }
  return 1 / sum;
}

}  // namespace

void route_row(const RowKernels& kernels, const RouteParams& params, const float* logits, float* working, int32_t* ids,
               float* weights) {
  float* scores = working;
  score_experts(kernels, params, logits, scores);
  if (!params.given) choose_experts(params, scores, scores + params.experts, ids);
  float sum = 0;
  for (int32_t j = 0; j < params.used; ++j) {
    weights[j] = params.score == RouteScore::kSparseMixer
                     ? sparse_mixer_share(params, scores, std::span(ids, static_cast<size_t>(j) + 1))
                     : scores[ids[j]];
    sum += weights[j];
  }
  const float factor = params.renormalise ? params.scale / std::max(sum, params.sum_least) : params.scale;
  for (int32_t j = 0; j < params.used; ++j) weights[j] *= factor;
}

}  // namespace cairn::kernels::cpu
