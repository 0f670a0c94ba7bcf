#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

namespace {

// Files have a tenth of the models' mscale_all_dim.
constexpr double kLogMultiplierUnit = 0.1;
constexpr float kIndexerNormEpsilon = 1e-6f;
// Of all published models, but the usual converter leaves the key out.
constexpr float kTemperatureMistral4 = 0.1f;
// What the sum of chosen experts' weights is divided by at least: the smallest ordinary binary16 number.
constexpr float kExpertSumLeast = 0x1p-14f;

// Files of V2 may lack the key, and so do those of GLM 4.7 Flash, which has a bias for choosing experts and sigmoids.
Result<RouteScore> read_score(const Keys& keys, const DecoderDescription& description) {
  constexpr int64_t kSoftmax = 1, kSigmoid = 2;
  const char* key = "expert_gating_func";
  const bool biased =
      keys.file().find_tensor(fmt::format("blk.{}.exp_probs_b.bias", description.layers.size() - 1)) != nullptr;
  CAIRN_TRY(const int64_t score, keys.integer_or(key, biased ? kSigmoid : kSoftmax, INT32_MIN, INT32_MAX));
  if (score == 0 || score == kSoftmax) return RouteScore::kSoftmax;
  if (score == kSigmoid) return RouteScore::kSigmoid;
  return fail(Code::kUnsupported, "{} is {}; supported are {} (softmax) and {} (sigmoid)", keys.full(key), score,
              kSoftmax, kSigmoid);
}

Result<void> describe_groups(const Keys& keys, RouteParams& route) {
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

Result<void> describe_routing(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_experts(keys, false, description));
  if (!description.experts) return {};
  ExpertsDescription& experts = *description.experts;
  CAIRN_TRY(const int64_t shared, keys.integer_or("expert_shared_count", 0, 0, kExpertsUsedMax));
  if (experts.shared_width == 0) experts.shared_width = shared * experts.width;
  CAIRN_TRY(experts.route.renormalise, keys.boolean_or("expert_weights_norm", false));
  CAIRN_TRY(const float scale, keys.number_or("expert_weights_scale", 0));
  if (scale != 0) experts.route.scale = scale;
  experts.route.sum_least = kExpertSumLeast;
  CAIRN_TRY(experts.route.score, read_score(keys, description));
  return describe_groups(keys, experts.route);
}

// Files for whole keys and values (attn_kv_b) give a head's sizes where others give those of a row.
Result<void> describe_latent(const Keys& keys, DecoderDescription& description) {
  LatentDescription latent;
  CAIRN_TRY(latent.query_rank, keys.integer_or("attention.q_lora_rank", 0, 0, kLowRankMax));
  CAIRN_TRY(latent.rank, keys.integer("attention.kv_lora_rank", 1, kLowRankMax));
  const bool rows = keys.contains("attention.key_length_mla");
  const char* query_key = rows ? "attention.key_length_mla" : "attention.key_length";
  CAIRN_TRY(const int32_t query_dim, keys.integer(query_key, 1, kHeadDimMax));
  CAIRN_TRY(description.value_dim,
            keys.integer(rows ? "attention.value_length_mla" : "attention.value_length", 1, kHeadDimMax));
  latent.rope = description.ropes[0].dims;
  if (latent.rope >= query_dim) {
    return fail(Code::kCorruptFile, "{} is {}, but {} is {}: some elements of a head must not turn",
                keys.full("rope.dimension_count"), latent.rope, keys.full(query_key), query_dim);
  }
  latent.nope = query_dim - latent.rope;
  description.kv_heads = 1;
  description.key_dim = latent.row_dim();
  description.latent = latent;
  return {};
}

// Yarn stretches angles, and lets scores grow with the logarithm of its factor. In other models the rotated elements
// grow; here all of a head do, by the scale of attention, and deepseek2 leaves out the growth of those rotated.
Result<void> describe_rope(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kAdjacent, description));
  CAIRN_TRY(RopeParams params, read_rope_params(keys, description));
  params.log_multiplier /= kLogMultiplierUnit;
  const bool yarn = params.scaling == RopeScaling::kYarn && params.extrapolation != 0 && params.factor > 1;
  double growth = 1;
  if (yarn) {
    growth += 0.1 * params.log_multiplier * std::log(params.factor);
    const bool plain = keys.architecture() == "deepseek2" && params.log_multiplier != 0;
    rope.magnitude = static_cast<float>(plain ? params.attention_factor : rope_magnitude(params));
    growth *= rope.magnitude;
  }
  description.ropes.push_back(std::move(rope));
  description.attention_scale = static_cast<float>(growth * growth);
  return {};
}

}  // namespace

// DeepSeek 2, 3 and R1, Kimi K2 and what has their shape.
Result<void> describe_deepseek2(const Keys& keys, DecoderDescription& description) {
  const auto layers = static_cast<int64_t>(description.layers.size());
  CAIRN_TRY(const int64_t next_token, keys.integer_or("nextn_predict_layers", 0, 0, layers - 1));
  description.layers.resize(layers - next_token);
  CAIRN_TRY_VOID(describe_rope(keys, description));
  CAIRN_TRY_VOID(describe_latent(keys, description));
  description.attention_scale /= std::sqrt(static_cast<float>(description.latent->query_dim()));
  CAIRN_TRY_VOID(describe_temperature(keys, keys.architecture() == "mistral4" ? kTemperatureMistral4 : 0, description));
  return describe_routing(keys, description);
}

// DeepSeek 3.2: each query reads the positions that an indexer chooses.
Result<void> describe_deepseek32(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_deepseek2(keys, description));
  LatentDescription& latent = *description.latent;
  if (latent.query_rank == 0) {
    return fail(Code::kCorruptFile, "{} is 0 or missing, but the indexer's queries are made from it",
                keys.full("attention.q_lora_rank"));
  }
  IndexerDescription indexer;
  CAIRN_TRY(indexer.heads, keys.integer("attention.indexer.head_count", 1, kHeadsMax));
  CAIRN_TRY(indexer.key_dim, keys.integer("attention.indexer.key_length", latent.rope, kHeadDimMax));
  CAIRN_TRY(indexer.most, keys.integer("attention.indexer.top_k", 1, kContextMax));
  indexer.most = std::min(indexer.most, description.context_tokens);
  CAIRN_TRY(indexer.norm_epsilon, keys.positive_or("attention.layer_norm_epsilon", kIndexerNormEpsilon));
  latent.indexer = indexer;
  return {};
}

}  // namespace cairn
