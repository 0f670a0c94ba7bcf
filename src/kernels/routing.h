/// How a router's logits become a choice of experts. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>

namespace cairn {

/// From a logit to an expert's score.
enum class RouteScore { kSoftmax, kSigmoid, kSqrtSoftplus };

struct RouteParams {
  int32_t experts = 0;
  int32_t used = 0;
  bool renormalise = false;  ///< weights of the chosen sum to 1
  float scale = 1;           ///< multiplies the weights at the end
  RouteScore score = RouteScore::kSoftmax;
  const float* bias = nullptr;  ///< [experts] or null: added to scores for choosing, not to weights
  /// > 1: as many groups of neighbours. Experts come from the `groups_used` groups whose two best biased scores have
  /// the largest sums (DeepSeek V3), or whose best is largest (V2).
  int32_t groups = 1;
  int32_t groups_used = 1;
  bool groups_by_best = false;
  float sum_least = 0;  ///< what renormalising divides by, at least
  bool given = false;   ///< the experts are chosen already: `ids` is input, and only weights are found
};

}  // namespace cairn
