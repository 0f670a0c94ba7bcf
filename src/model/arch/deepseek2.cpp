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

// Files of V2 may lack the key of scores, and so do those of GLM 4.7 Flash, which has a bias for choosing experts and
// sigmoids.
RoutingDefaults routing_defaults(const MetadataReader& keys, const DecoderConfig& config) {
  const bool biased =
      keys.file().find_tensor(fmt::format("blk.{}.exp_probs_b.bias", config.layers.size() - 1)) != nullptr;
  return {.score = biased ? RouteScore::kSigmoid : RouteScore::kSoftmax};
}

// Files for whole keys and values (attn_kv_b) give a head's sizes where others give those of a row.
Result<void> read_latent_config(const MetadataReader& keys, DecoderConfig& config) {
  MlaConfig latent;
  CAIRN_TRY(latent.q_lora_rank, keys.integer_or("attention.q_lora_rank", 0, 0, kLowRankMax));
  CAIRN_TRY(latent.rank, keys.integer("attention.kv_lora_rank", 1, kLowRankMax));
  const bool rows = keys.contains("attention.key_length_mla");
  const char* query_key = rows ? "attention.key_length_mla" : "attention.key_length";
  CAIRN_TRY(const int32_t query_dim, keys.integer(query_key, 1, kHeadDimMax));
  CAIRN_TRY(config.value_dim,
            keys.integer(rows ? "attention.value_length_mla" : "attention.value_length", 1, kHeadDimMax));
  latent.rope = config.ropes[0].dims;
  if (latent.rope >= query_dim) {
    return fail(Code::kCorruptFile, "{} is {}, but {} is {}: some elements of a head must not turn",
                keys.full("rope.dimension_count"), latent.rope, keys.full(query_key), query_dim);
  }
  latent.nope = query_dim - latent.rope;
  config.kv_heads = 1;
  config.key_dim = latent.row_dim();
  config.latent = latent;
  return {};
}

// Yarn stretches angles, and lets scores grow with the logarithm of its factor. In other models the rotated elements
// grow; here all of a head do, by the scale of attention, and deepseek2 leaves out the growth of those rotated.
Result<void> read_rope_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, RopeStyle::kInterleaved, config));
  CAIRN_TRY(RopeParams params, read_rope_params(keys, config));
  params.log_multiplier /= kLogMultiplierUnit;
  const bool yarn = params.scaling == RopeScaling::kYarn && params.extrapolation != 0 && params.factor > 1;
  double growth = 1;
  if (yarn) {
    growth += 0.1 * params.log_multiplier * std::log(params.factor);
    const bool plain = keys.architecture() == "deepseek2" && params.log_multiplier != 0;
    rope.magnitude = static_cast<float>(plain ? params.attention_factor : rope_magnitude(params));
    growth *= rope.magnitude;
  }
  config.ropes.push_back(std::move(rope));
  config.attention_scale = static_cast<float>(growth * growth);
  return {};
}

}  // namespace

// DeepSeek 2, 3 and R1, Kimi K2 and what has their shape.
Result<void> read_deepseek2_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(leave_out_mtp_layers(keys, config));
  CAIRN_TRY_VOID(read_rope_config(keys, config));
  CAIRN_TRY_VOID(read_latent_config(keys, config));
  config.attention_scale /= std::sqrt(static_cast<float>(config.latent->query_dim()));
  CAIRN_TRY_VOID(read_temperature_config(keys, keys.architecture() == "mistral4" ? kTemperatureMistral4 : 0, config));
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  return read_routing_config(keys, routing_defaults(keys, config), config);
}

// DeepSeek 3.2: each query reads the positions that an indexer chooses.
Result<void> read_deepseek32_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_deepseek2_config(keys, config));
  MlaConfig& latent = *config.latent;
  if (latent.q_lora_rank == 0) {
    return fail(Code::kCorruptFile, "{} is 0 or missing, but the indexer's queries are made from it",
                keys.full("attention.q_lora_rank"));
  }
  IndexerConfig indexer;
  CAIRN_TRY(indexer.heads, keys.integer("attention.indexer.head_count", 1, kHeadsMax));
  CAIRN_TRY(indexer.key_dim, keys.integer("attention.indexer.key_length", latent.rope, kHeadDimMax));
  CAIRN_TRY(indexer.most, keys.integer("attention.indexer.top_k", 1, kContextMax));
  indexer.most = std::min(indexer.most, config.context_tokens);
  CAIRN_TRY(indexer.norm_epsilon, keys.positive_or("attention.layer_norm_epsilon", kIndexerNormEpsilon));
  latent.indexer = indexer;
  return {};
}

}  // namespace cairn
