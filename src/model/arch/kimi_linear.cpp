#include <algorithm>
#include <cmath>

#include "model/arch/table.h"

namespace cairn::model {

namespace {

// Files of Kimi Linear have no key for it; the kernels that it was trained with have this one.
constexpr float kLengthEpsilon = 1e-6f;

// Some files have the size of a head's part of the embedding as rope.dimension_count.
Result<int32_t> unrotated_part(const MetadataReader& keys, const DecoderConfig& config) {
  CAIRN_TRY(const int64_t rank, keys.integer("attention.kv_lora_rank", 1, kLowRankMax));
  const auto first = std::ranges::find(config.layers, Mixer::kAttention, &LayerConfig::mixer) - config.layers.begin();
  const gguf::Tensor* rows = keys.file().find_tensor(fmt::format("blk.{}.attn_kv_a_mqa.weight", first));
  CAIRN_TRY(const int64_t named, keys.integer("rope.dimension_count", 1, kHeadDimMax));
  if (rows == nullptr || rows->shape.size() < 2) return static_cast<int32_t>(named);
  return static_cast<int32_t>(std::clamp<int64_t>(rows->shape[1] - rank, 1, kHeadDimMax));
}

Result<void> read_kimi_delta_config(const MetadataReader& keys, DecoderConfig& config) {
  RecurrentConfig state;
  CAIRN_TRY(state.taps, keys.integer("ssm.conv_kernel", 1, kernels::kConvolutionTapsMax));
  CAIRN_TRY(state.heads, keys.integer("attention.head_count", 1, kHeadsMax));
  CAIRN_TRY(state.head_dim, keys.integer("kda.head_dim", 1, kHeadDimMax));
  state.groups = state.heads;
  state.state_dim = state.head_dim;
  state.gate_rank = state.head_dim;
  state.channels = 3 * state.inner();
  state.channel_decay = true;
  state.length_epsilon = kLengthEpsilon;
  config.recurrent = state;
  mix_otherwise_by(Mixer::kKimiDeltaAttention, config);
  return {};
}

}  // namespace

// Kimi Linear: three of four layers are Kimi Delta Attention, the fourth is attention over latent rows. No positions.
Result<void> read_kimi_linear_config(const MetadataReader& keys, DecoderConfig& config) {
  if (config.heads > 0) {
    CAIRN_TRY(const int32_t unrotated, unrotated_part(keys, config));
    CAIRN_TRY_VOID(read_mla_config(keys, unrotated, config));
    config.attention_scale = 1 / std::sqrt(static_cast<float>(config.mla->query_dim()));
  }
  CAIRN_TRY_VOID(read_kimi_delta_config(keys, config));
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  return read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid, .renormalise = true}, config);
}

}  // namespace cairn::model
