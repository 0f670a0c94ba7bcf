#include <algorithm>

#include "model/metadata_reader.h"
#include "model/parts/experts.h"

// What files say of experts.
namespace cairn::model {

Result<MoeConfig> read_experts(const MetadataReader& keys, int64_t dense) {
  MoeConfig config;
  CAIRN_TRY(config.route.experts, keys.integer("expert_count", 1, kExpertsMax));
  const auto used_max = std::min<int64_t>(config.route.experts, kExpertsUsedMax);
  CAIRN_TRY(config.route.used, keys.integer("expert_used_count", 1, used_max));
  CAIRN_TRY(config.width, keys.integer_or("expert_feed_forward_length", dense, 1, kFeedForwardMax));
  CAIRN_TRY(config.shared_width, keys.integer_or("expert_shared_feed_forward_length", 0, 0, kFeedForwardMax));
  return config;
}

namespace {

// What the sum of chosen experts' weights is divided by at least: the smallest ordinary binary16 number.
constexpr float kExpertSumLeast = 0x1p-14f;

Result<kernels::RouteScore> read_score(const MetadataReader& keys, kernels::RouteScore missing) {
  constexpr int64_t kSoftmax = 1, kSigmoid = 2;
  const char* key = "expert_gating_func";
  if (!keys.contains(key)) return missing;
  CAIRN_TRY(const int64_t score, keys.integer(key, INT32_MIN, INT32_MAX));
  if (score == 0 || score == kSoftmax) return kernels::RouteScore::kSoftmax;
  if (score == kSigmoid) return kernels::RouteScore::kSigmoid;
  return fail(Code::kUnsupported, "{} is {}; supported are {} (softmax) and {} (sigmoid)", keys.full(key), score,
              kSoftmax, kSigmoid);
}

Result<void> read_groups(const MetadataReader& keys, kernels::RouteParams& route) {
  CAIRN_TRY(const int64_t groups, keys.integer_or("expert_group_count", 0, 0, route.experts));
  CAIRN_TRY(const int64_t used,
            keys.integer_or("expert_group_used_count", 0, groups > 1 ? 1 : 0, groups > 1 ? groups : kExpertsMax));
  if (groups <= 1) return {};
  if (route.experts % groups != 0) {
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} experts of {}",
                keys.full("expert_group_count"), groups, route.experts, keys.full("expert_count"));
  }
  if (used * (route.experts / groups) < route.used) {
    return fail(Code::kCorruptFile, "{} is {}, but {} groups of {} experts have no {} to choose",
                keys.full("expert_group_used_count"), used, used, route.experts / groups, route.used);
  }
  route.groups = static_cast<int32_t>(groups);
  route.groups_used = static_cast<int32_t>(used);
  // No key tells the two rules apart: V2 scores by softmax and ranks a group by its best expert, V3 by sigmoid with a
  // bias and ranks it by its two best.
  route.groups_by_best = route.score == kernels::RouteScore::kSoftmax;
  return {};
}

}  // namespace

Result<void> read_routing(const MetadataReader& keys, const RoutingDefaults& missing, MoeConfig& config) {
  CAIRN_TRY(const int64_t shared, keys.integer_or("expert_shared_count", 0, 0, kExpertsUsedMax));
  if (config.shared_width == 0) config.shared_width = shared * config.width;
  CAIRN_TRY(config.route.renormalise, keys.boolean_or("expert_weights_norm", missing.renormalise));
  CAIRN_TRY(const float scale, keys.number_or("expert_weights_scale", 0));
  if (scale != 0) config.route.scale = scale;
  config.route.sum_least = kExpertSumLeast;
  CAIRN_TRY(config.route.score, read_score(keys, missing.score));
  return read_groups(keys, config.route);
}

}  // namespace cairn::model
