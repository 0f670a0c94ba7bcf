#include "model/weights/encoder_weights.h"

#include <string>

namespace cairn {
namespace {

Result<LayerNorm> load_norm(Binder& binder, const std::string& name, int64_t width) {
  LayerNorm norm;
  CAIRN_TRY(norm.weight, binder.vector(name + ".weight", width));
  if (binder.has(name + ".bias")) {
    CAIRN_TRY(norm.bias, binder.vector(name + ".bias", width));
  }
  return norm;
}

Result<EncoderLayerWeights> load_layer(Binder& binder, const EncoderDescription& description, int32_t layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  const int64_t width = description.embedding;
  const int64_t inner = description.feed_forward;
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
  if (description.gated) {
    CAIRN_TRY(weights.gate, binder.linear(prefix + "ffn_gate", inner, width));
  }
  CAIRN_TRY(weights.up, binder.linear(prefix + "ffn_up", inner, width));
  CAIRN_TRY(weights.down, binder.linear(prefix + "ffn_down", width, inner));
  CAIRN_TRY(weights.output_norm, load_norm(binder, prefix + "layer_output_norm", width));
  return weights;
}

Result<Weight> load_table(Binder& binder, const char* name, int64_t rows, int64_t width) {
  CAIRN_TRY(const Linear table, binder.linear(name, rows, width));
  return table.weight;
}

}  // namespace

Result<EncoderWeights> load_encoder_weights(Binder& binder, Backend& backend, const EncoderDescription& description) {
  const int64_t width = description.embedding;
  EncoderWeights weights;
  CAIRN_TRY(weights.tokens, load_table(binder, "token_embd", description.vocabulary, width));
  if (description.learned_positions) {
    CAIRN_TRY(weights.positions, load_table(binder, "position_embd", description.context_trained, width));
  }
  if (description.token_types > 0) {
    CAIRN_TRY(weights.types, load_table(binder, "token_types", description.token_types, width));
  }
  CAIRN_TRY(weights.embedding_norm, load_norm(binder, "token_embd_norm", width));
  if (!description.slopes.empty()) {
    const auto bytes = static_cast<int64_t>(description.slopes.size() * sizeof(float));
    if (binder.wants(bytes)) {
      CAIRN_TRY(weights.slopes, backend.allocate(bytes));
      backend.write(description.slopes.data(), bytes, weights.slopes.data());
    }
  }
  for (int32_t layer = 0; layer < description.layers; ++layer) {
    CAIRN_TRY(EncoderLayerWeights loaded, load_layer(binder, description, layer));
    weights.layers.push_back(std::move(loaded));
  }
  if (description.label_dense) {
    CAIRN_TRY(weights.label_dense, binder.linear("cls", width, width));
  }
  if (description.labels > 0) {
    CAIRN_TRY(weights.labels, binder.linear("cls.output", description.labels, width));
  }
  return weights;
}

}  // namespace cairn
