#include "model/encoder/encoder_weights.h"

#include <string>

#include "kernels/backend.h"

namespace cairn {
namespace {

// Whether a layer norm has a bias differs between files, not architectures.
Result<Norm> load_norm(WeightLoader& binder, const std::string& name, const EncoderConfig& config) {
  NormConfig norm = config.norm;
  norm.biases = binder.has(name + ".bias");
  return Norm::load(binder, name, config.embedding, norm);
}

Result<void> load_norms(WeightLoader& binder, const EncoderConfig& config, int32_t layer,
                        EncoderLayerWeights& weights) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  if (config.norms == NormPlacement::kPostLn) {
    CAIRN_TRY(weights.attention_post_norm, load_norm(binder, prefix + "attn_output_norm", config));
    CAIRN_TRY(weights.feed_forward_post_norm, load_norm(binder, prefix + "layer_output_norm", config));
    return {};
  }
  if (layer > 0 || config.first_norm) {
    CAIRN_TRY(weights.attention_pre_norm, load_norm(binder, prefix + "attn_norm", config));
  }
  CAIRN_TRY(weights.feed_forward_pre_norm, load_norm(binder, prefix + "ffn_norm", config));
  if (config.norms == NormPlacement::kSandwich) {
    CAIRN_TRY(weights.attention_post_norm, load_norm(binder, prefix + "post_attention_norm", config));
    CAIRN_TRY(weights.feed_forward_post_norm, load_norm(binder, prefix + "post_ffw_norm", config));
  }
  return {};
}

Result<void> load_feed_forward(WeightLoader& binder, const EncoderConfig& config, int32_t layer,
                               EncoderLayerWeights& weights) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  const FeedForwardConfig& form = config.feed_forward;
  if (config.layers[layer].routed) {
    CAIRN_TRY(weights.experts, Experts::load(binder, prefix, config.embedding, *config.experts, form, form));
  } else {
    CAIRN_TRY(weights.dense, FeedForward::load(binder, prefix + "ffn_", "", config.embedding, form));
  }
  return {};
}

Result<EncoderLayerWeights> load_layer(WeightLoader& binder, const EncoderConfig& config, int32_t layer,
                                       const float* slopes) {
  EncoderLayerWeights weights;
  CAIRN_TRY_VOID(load_norms(binder, config, layer, weights));
  AttentionConfig attention = config.attention(config.layers[layer]);
  attention.slopes = slopes;
  CAIRN_TRY(weights.attention, Attention::load(binder, fmt::format("blk.{}.", layer), config.embedding, attention));
  CAIRN_TRY_VOID(load_feed_forward(binder, config, layer, weights));
  return weights;
}

Result<void> load_slopes(WeightLoader& binder, Backend& backend, const EncoderConfig& config, EncoderWeights& weights) {
  const auto bytes = static_cast<int64_t>(config.slopes.size() * sizeof(float));
  if (bytes == 0 || !binder.wants(bytes)) return {};
  CAIRN_TRY(weights.slopes, backend.allocate(bytes));
  backend.write(config.slopes.data(), bytes, weights.slopes.data());
  return {};
}

/// The layers that pooled rows go through.
Result<void> load_heads(WeightLoader& binder, const EncoderConfig& config, EncoderWeights& weights) {
  const int64_t width = config.embedding;
  if (config.dense_2 > 0) {
    CAIRN_TRY(weights.dense_2, binder.linear("dense_2", config.dense_2, width));
  }
  if (config.dense_3 > 0) {
    CAIRN_TRY(weights.dense_3, binder.linear("dense_3", config.dense_3, config.dense_2 > 0 ? config.dense_2 : width));
  }
  if (config.label_dense) {
    CAIRN_TRY(weights.label_dense, binder.linear("cls", width, width));
  }
  if (config.label_norm) {
    CAIRN_TRY(weights.label_norm, load_norm(binder, "cls.norm", config));
  }
  if (config.labels > 0) {
    const char* name = binder.has("cls.output.weight") ? "cls.output" : "cls";
    CAIRN_TRY(weights.labels, binder.linear(name, config.labels, width));
  }
  return {};
}

}  // namespace

Result<EncoderWeights> load_encoder_weights(WeightLoader& binder, Backend& backend, const EncoderConfig& config) {
  const int64_t width = config.embedding;
  EncoderWeights weights;
  CAIRN_TRY(weights.tokens, binder.token_table("token_embd", config.vocabulary, width));
  if (config.learned_positions) {
    CAIRN_TRY(weights.positions, binder.lookup_table("position_embd", config.context_trained, width));
  }
  if (config.token_types > 0) {
    CAIRN_TRY(weights.types, binder.lookup_table("token_types", config.token_types, width));
  }
  if (config.embedding_norm) {
    CAIRN_TRY(weights.embedding_norm, load_norm(binder, "token_embd_norm", config));
  }
  CAIRN_TRY_VOID(load_slopes(binder, backend, config, weights));
  for (int32_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    CAIRN_TRY(EncoderLayerWeights loaded, load_layer(binder, config, layer, weights.slopes.floats()));
    weights.layers.push_back(std::move(loaded));
  }
  if (config.norms != NormPlacement::kPostLn) {
    CAIRN_TRY(weights.output_norm, load_norm(binder, "output_norm", config));
  }
  CAIRN_TRY_VOID(load_heads(binder, config, weights));
  CAIRN_TRY_VOID(binder.allocate_adapters());
  weights.adapter_rows = binder.adapter_rows();
  return weights;
}

}  // namespace cairn
