#include "model/config.h"

namespace cairn {

namespace {

// What the sum of chosen experts' weights is divided by at least: the smallest ordinary binary16 number.
constexpr float kExpertSumLeast = 0x1p-14f;

Result<RouteScore> read_score(const MetadataReader& keys, RouteScore missing) {
  constexpr int64_t kSoftmax = 1, kSigmoid = 2;
  const char* key = "expert_gating_func";
  if (!keys.contains(key)) return missing;
  CAIRN_TRY(const int64_t score, keys.integer(key, INT32_MIN, INT32_MAX));
  if (score == 0 || score == kSoftmax) return RouteScore::kSoftmax;
  if (score == kSigmoid) return RouteScore::kSigmoid;
  return fail(Code::kUnsupported, "{} is {}; supported are {} (softmax) and {} (sigmoid)", keys.full(key), score,
              kSoftmax, kSigmoid);
}

Result<void> read_groups(const MetadataReader& keys, RouteParams& route) {
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
  route.groups_by_best = route.score == RouteScore::kSoftmax;
  return {};
}

}  // namespace

Result<void> read_routing_config(const MetadataReader& keys, const RoutingDefaults& missing, DecoderConfig& config) {
  if (!config.experts) return {};
  MoeConfig& experts = *config.experts;
  CAIRN_TRY(const int64_t shared, keys.integer_or("expert_shared_count", 0, 0, kExpertsUsedMax));
  if (experts.shared_width == 0) experts.shared_width = shared * experts.width;
  CAIRN_TRY(experts.route.renormalise, keys.boolean_or("expert_weights_norm", missing.renormalise));
  CAIRN_TRY(const float scale, keys.number_or("expert_weights_scale", 0));
  if (scale != 0) experts.route.scale = scale;
  experts.route.sum_least = kExpertSumLeast;
  CAIRN_TRY(experts.route.score, read_score(keys, missing.score));
  return read_groups(keys, experts.route);
}

Result<void> read_expert_step_config(const MetadataReader& keys, DecoderConfig& config) {
  const auto layers = static_cast<int64_t>(config.layers.size());
  CAIRN_TRY(const int64_t step, keys.integer_or("interleave_moe_layer_step", 1, 1, layers));
  for (int64_t i = 0; i < layers; ++i) {
    if ((i + 1) % step != 0) config.layers[i].routed = false;
  }
  return {};
}

Result<void> leave_out_mtp_layers(const MetadataReader& keys, DecoderConfig& config) {
  const auto layers = static_cast<int64_t>(config.layers.size());
  CAIRN_TRY(config.mtp_layers, keys.integer_or("nextn_predict_layers", 0, 0, layers - 1));
  config.layers.resize(layers - config.mtp_layers);
  return {};
}

void describe_mtp_layer(DecoderConfig& config) {
  if (config.mtp_layers == 0) return;
  const auto attends = std::find_if(config.layers.rbegin(), config.layers.rend(),
                                    [](const LayerConfig& layer) { return layer.mixer == Mixer::kAttention; });
  if (attends == config.layers.rend()) return;
  config.mtp_layer = *attends;
  config.mtp_layer->feed_forward = true;
  config.mtp_layer->routed = config.experts.has_value();
}

}  // namespace cairn
