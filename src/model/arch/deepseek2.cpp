#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {

// Files have a tenth of the models' mscale_all_dim.
constexpr double kLogMultiplierUnit = 0.1;
constexpr float kIndexerNormEpsilon = 1e-6f;
// All published models have this scale, but the usual converter leaves the key out.
constexpr float kTemperatureMistral4 = 0.1f;

// Files of V2 may lack the key of scores, and so do those of GLM 4.7 Flash, which has a bias for choosing experts and
// sigmoids.
RoutingDefaults routing_defaults(const MetadataReader& keys, const DecoderConfig& config) {
  const bool biased =
      keys.file().find_tensor(fmt::format("blk.{}.exp_probs_b.bias", config.layers.size() - 1)) != nullptr;
  return {.score = biased ? kernels::RouteScore::kSigmoid : kernels::RouteScore::kSoftmax};
}

// Yarn stretches angles, and lets scores grow with the logarithm of its factor. In other models the rotated elements
// grow; here all of a head do, by the scale of attention, and deepseek2 leaves out the growth of those rotated.
Result<void> read_rope_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  CAIRN_TRY(RopeParams params, read_rope_params(keys, config.rope_sizes()));
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
  CAIRN_TRY_VOID(read_mla_config(keys, config.ropes[0].dims, config));
  config.attention_scale /= std::sqrt(static_cast<float>(config.mla->query_dim()));
  CAIRN_TRY_VOID(read_temperature_config(keys, keys.architecture() == "mistral4" ? kTemperatureMistral4 : 0, config));
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  return read_routing_config(keys, routing_defaults(keys, config), config);
}

// DeepSeek 3.2: each query reads the positions that an indexer chooses.
Result<void> read_deepseek32_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_deepseek2_config(keys, config));
  MlaConfig& mla = *config.mla;
  if (mla.q_lora_rank == 0) {
    return fail(Code::kCorruptFile, "{} is 0 or missing, but the indexer's queries are made from it",
                keys.full("attention.q_lora_rank"));
  }
  IndexerConfig indexer;
  CAIRN_TRY(indexer.heads, keys.integer("attention.indexer.head_count", 1, kHeadsMax));
  CAIRN_TRY(indexer.key_dim, keys.integer("attention.indexer.key_length", mla.rope, kHeadDimMax));
  CAIRN_TRY(indexer.most, keys.integer("attention.indexer.top_k", 1, kContextMax));
  indexer.most = std::min(indexer.most, config.context_tokens);
  CAIRN_TRY(indexer.norm_epsilon, keys.positive_or("attention.layer_norm_epsilon", kIndexerNormEpsilon));
  mla.indexer = indexer;
  return {};
}

// GLM 5: DeepSeek 3.2 with another rope in the indexer, which from 5.2 on few layers have: the others read what the
// layer before reads.
Result<void> read_glm_dsa_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr const char* kTypes = "attention.indexer.types";
  // First files of GLM 5.2, whose context is the only one so long, have no list.
  constexpr int32_t kContext52 = 1 << 20;
  constexpr size_t kFirst52 = 2, kInterval52 = 4;
  CAIRN_TRY_VOID(read_deepseek32_config(keys, config));
  config.mla->indexer->rope_style = kernels::RopeStyle::kInterleaved;
  std::vector<LayerConfig>& layers = config.layers;
  if (keys.contains(kTypes)) {
    CAIRN_TRY(const std::vector<bool> flags, keys.flag_per_layer(kTypes, std::ssize(layers)));
    for (size_t i = 0; i < layers.size(); ++i) layers[i].indexer = flags[i];
  } else if (config.context_trained >= kContext52) {
    for (size_t i = kFirst52; i < layers.size(); ++i) layers[i].indexer = (i - kFirst52) % kInterval52 == 0;
  }
  if (layers[0].indexer) return {};
  return fail_at("key " + keys.full(kTypes), Code::kCorruptFile,
                 "{} says that layer 0 has no indexer, but no layer before it has one", keys.full(kTypes));
}

}  // namespace cairn::model
