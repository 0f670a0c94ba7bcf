#include "model/weights/encoder_weights.h"

#include <string>

namespace cairn {
namespace {

Result<LayerNorm> load_norm(WeightLoader& binder, const std::string& name, int64_t width) {
  LayerNorm norm;
  CAIRN_TRY(norm.weight, binder.vector(name + ".weight", width));
  if (binder.has(name + ".bias")) {
    CAIRN_TRY(norm.bias, binder.vector(name + ".bias", width));
  }
  return norm;
}

Result<EncoderLayerWeights> load_layer(WeightLoader& binder, const EncoderConfig& config, int32_t layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  const int64_t width = config.embedding;
  const int64_t inner = config.feed_forward;
  EncoderLayerWeights weights;
  if (const std::string fused = prefix + "attn_qkv"; binder.has(fused + ".weight")) {
    CAIRN_TRY(weights.query, binder.linear_rows(fused, 3 * width, width, {0, width}));
    CAIRN_TRY(weights.key, binder.linear_rows(fused, 3 * width, width, {width, width}));
    CAIRN_TRY(weights.value, binder.linear_rows(fused, 3 * width, width, {2 * width, width}));
  } else {
    CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q", width, width));
    CAIRN_TRY(weights.key, binder.linear(prefix + "attn_k", width, width));
    CAIRN_TRY(weights.value, binder.linear(prefix + "attn_v", width, width));
  }
  CAIRN_TRY(weights.attention_output, binder.linear(prefix + "attn_output", width, width));
  CAIRN_TRY(weights.attention_norm, load_norm(binder, prefix + "attn_output_norm", width));
  if (config.gated) {
    CAIRN_TRY(weights.gate, binder.linear(prefix + "ffn_gate", inner, width));
  }
  CAIRN_TRY(weights.up, binder.linear(prefix + "ffn_up", inner, width));
  CAIRN_TRY(weights.down, binder.linear(prefix + "ffn_down", width, inner));
  CAIRN_TRY(weights.output_norm, load_norm(binder, prefix + "layer_output_norm", width));
  return weights;
}

Result<Weight> load_table(WeightLoader& binder, const char* name, int64_t rows, int64_t width) {
  CAIRN_TRY(const Linear table, binder.linear(name, rows, width));
  return table.weight;
}

}  // namespace

Result<EncoderWeights> load_encoder_weights(WeightLoader& binder, Backend& backend, const EncoderConfig& config) {
  const int64_t width = config.embedding;
  EncoderWeights weights;
  CAIRN_TRY(weights.tokens, load_table(binder, "token_embd", config.vocabulary, width));
  if (config.learned_positions) {
    CAIRN_TRY(weights.positions, load_table(binder, "position_embd", config.context_trained, width));
  }
  if (config.token_types > 0) {
    CAIRN_TRY(weights.types, load_table(binder, "token_types", config.token_types, width));
  }
  CAIRN_TRY(weights.embedding_norm, load_norm(binder, "token_embd_norm", width));
  if (!config.slopes.empty()) {
    const auto bytes = static_cast<int64_t>(config.slopes.size() * sizeof(float));
    if (binder.wants(bytes)) {
      CAIRN_TRY(weights.slopes, backend.allocate(bytes));
      backend.write(config.slopes.data(), bytes, weights.slopes.data());
    }
  }
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    CAIRN_TRY(EncoderLayerWeights loaded, load_layer(binder, config, layer));
    weights.layers.push_back(std::move(loaded));
  }
  if (config.label_dense) {
    CAIRN_TRY(weights.label_dense, binder.linear("cls", width, width));
  }
  if (config.labels > 0) {
    CAIRN_TRY(weights.labels, binder.linear("cls.output", config.labels, width));
  }
  return weights;
}

}  // namespace cairn
