#include "model/encoder/encoder_weights.h"

#include <string>

#include "kernels/backend.h"

namespace cairn::model {
namespace {

// Whether a layer norm has a bias differs between files, not architectures.
Result<Norm> load_norm(WeightLoader& loader, const std::string& name, const EncoderConfig& config) {
  NormConfig norm = config.norm;
  norm.biases = loader.has(name + ".bias");
  return Norm::load(loader, name, config.embedding, norm);
}

Result<void> load_norms(WeightLoader& loader, const EncoderConfig& config, int32_t layer,
                        EncoderLayerWeights& weights) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  if (config.norms == NormPlacement::kPostLn) {
    CAIRN_TRY(weights.attention_post_norm, load_norm(loader, prefix + "attn_output_norm", config));
    CAIRN_TRY(weights.feed_forward_post_norm, load_norm(loader, prefix + "layer_output_norm", config));
    return {};
  }
  if (layer > 0 || config.first_norm) {
    CAIRN_TRY(weights.attention_pre_norm, load_norm(loader, prefix + "attn_norm", config));
  }
  CAIRN_TRY(weights.feed_forward_pre_norm, load_norm(loader, prefix + "ffn_norm", config));
  if (config.norms == NormPlacement::kSandwich) {
    CAIRN_TRY(weights.attention_post_norm, load_norm(loader, prefix + "post_attention_norm", config));
    CAIRN_TRY(weights.feed_forward_post_norm, load_norm(loader, prefix + "post_ffw_norm", config));
  }
  return {};
}

Result<void> load_feed_forward(WeightLoader& loader, const EncoderConfig& config, int32_t layer,
                               EncoderLayerWeights& weights) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  const FeedForwardConfig& form = config.feed_forward;
  if (config.layers[layer].routed) {
    CAIRN_TRY(weights.experts, Experts::load(loader, prefix, config.embedding, *config.experts, form, form));
  } else {
    CAIRN_TRY(weights.dense, FeedForward::load(loader, prefix + "ffn_", "", config.embedding, form));
  }
  return {};
}

Result<EncoderLayerWeights> load_layer(WeightLoader& loader, const EncoderConfig& config, int32_t layer,
                                       const float* slopes) {
  EncoderLayerWeights weights;
  CAIRN_TRY_VOID(load_norms(loader, config, layer, weights));
  AttentionConfig attention = config.attention(config.layers[layer]);
  attention.slopes = slopes;
  CAIRN_TRY(weights.attention, Attention::load(loader, fmt::format("blk.{}.", layer), config.embedding, attention));
  CAIRN_TRY_VOID(load_feed_forward(loader, config, layer, weights));
  return weights;
}

Result<void> load_slopes(WeightLoader& loader, kernels::Backend& backend, const EncoderConfig& config,
                         EncoderWeights& weights) {
  const auto bytes = static_cast<int64_t>(config.slopes.size() * sizeof(float));
  if (bytes == 0 || !loader.wants(bytes)) return {};
  CAIRN_TRY(weights.slopes, backend.allocate(bytes));
  backend.write(config.slopes.data(), bytes, weights.slopes.data());
  return {};
}

/// The layers that pooled rows go through.
Result<void> load_heads(WeightLoader& loader, const EncoderConfig& config, EncoderWeights& weights) {
  const int64_t width = config.embedding;
  if (config.dense_2 > 0) {
    CAIRN_TRY(weights.dense_2, loader.linear("dense_2", config.dense_2, width));
  }
  if (config.dense_3 > 0) {
    CAIRN_TRY(weights.dense_3, loader.linear("dense_3", config.dense_3, config.dense_2 > 0 ? config.dense_2 : width));
  }
  if (config.label_dense) {
    CAIRN_TRY(weights.label_dense, loader.linear("cls", width, width));
  }
  if (config.label_norm) {
    CAIRN_TRY(weights.label_norm, load_norm(loader, "cls.norm", config));
  }
  if (config.labels > 0) {
    const char* name = loader.has("cls.output.weight") ? "cls.output" : "cls";
    CAIRN_TRY(weights.labels, loader.linear(name, config.labels, width));
  }
  return {};
}

}  // namespace

Result<EncoderWeights> load_encoder_weights(WeightLoader& loader, kernels::Backend& backend,
                                            const EncoderConfig& config) {
  const int64_t width = config.embedding;
  EncoderWeights weights;
  CAIRN_TRY(weights.tokens, loader.token_table("token_embd", config.vocabulary, width));
  if (config.learned_positions) {
    CAIRN_TRY(weights.positions, loader.lookup_table("position_embd", config.context_trained, width));
  }
  if (config.token_types > 0) {
    CAIRN_TRY(weights.types, loader.lookup_table("token_types", config.token_types, width));
  }
  if (config.embedding_norm) {
    CAIRN_TRY(weights.embedding_norm, load_norm(loader, "token_embd_norm", config));
  }
  CAIRN_TRY_VOID(load_slopes(loader, backend, config, weights));
  for (int32_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    CAIRN_TRY(EncoderLayerWeights loaded, load_layer(loader, config, layer, weights.slopes.floats()));
    weights.layers.push_back(std::move(loaded));
  }
  if (config.norms != NormPlacement::kPostLn) {
    CAIRN_TRY(weights.output_norm, load_norm(loader, "output_norm", config));
  }
  CAIRN_TRY_VOID(load_heads(loader, config, weights));
  CAIRN_TRY_VOID(loader.allocate_adapters());
  weights.adapter_rows = loader.adapter_rows();
  return weights;
}

}  // namespace cairn::model
