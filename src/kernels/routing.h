/// How a router's logits become a choice of experts. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>

namespace cairn::kernels {

/// How a logit becomes an expert's score.
enum class RouteScore {
  kSoftmax,
  kSigmoid,
  kSqrtSoftplus,
  /// Experts are chosen one after the other, by their logits (Phi 3.5 MoE): each one's weight is its share of the
  /// softmax over those not chosen before whose logits are near its own. Without bias, groups and `given`.
  kSparseMixer,
};

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
  /// kSparseMixer's: logit x is near the best of the others, m, if m - x <= 2 jitter max(|x|, m).
  float jitter = 0;
  float sum_least = 0;  ///< what renormalising divides by, at least
  bool given = false;   ///< the experts are chosen already: `ids` is input, and only weights are found
};

}  // namespace cairn::kernels
