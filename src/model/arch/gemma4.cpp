#include <cmath>

#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {

constexpr double kGemma4WindowRopeBase = 10'000;

// Windowed layers have heads and a rope of their own; layers without a value matrix that see everything take keys for
// values.
Result<void> read_window_layers(const MetadataReader& keys, DecoderConfig& config) {
  const char* pattern = "attention.sliding_window_pattern";
  if (!keys.contains(pattern)) {
    return fail(Code::kCorruptFile, "{} is missing, which says for each layer whether it has a window",
                keys.full(pattern));
  }
  CAIRN_TRY(const int64_t window, keys.integer("attention.sliding_window", 1, kContextMax));
  CAIRN_TRY(const int32_t key_dim, keys.integer_or("attention.key_length_swa", config.key_dim, 2, kHeadDimMax));
  CAIRN_TRY(const int32_t value_dim, keys.integer_or("attention.value_length_swa", key_dim, 1, kHeadDimMax));
  CAIRN_TRY(const int32_t dims, keys.integer_or("rope.dimension_count_swa", key_dim, 2, key_dim));
  if (dims % 2 != 0) {
    return fail(Code::kCorruptFile, "{} is {}, but rotated elements come in pairs",
                keys.full("rope.dimension_count_swa"), dims);
  }
  CAIRN_TRY(RopeConfig rope,
            read_window_rope(keys, kernels::RopeStyle::kNeoX, kGemma4WindowRopeBase, config.rope_sizes(), dims));
  config.ropes.push_back(std::move(rope));
  CAIRN_TRY_VOID(read_windows_config(keys, window, 0, 1, config));
  for (LayerConfig& layer : config.layers) {
    if (layer.window == 0) continue;
    layer.key_dim = key_dim;
    layer.value_dim = value_dim;
  }
  return {};
}

// The last layers read the keys and values of the last layer of their kind that has some.
Result<void> read_shared_kv(const MetadataReader& keys, DecoderConfig& config) {
  const char* key = "attention.shared_kv_layers";
  const auto layers = static_cast<int32_t>(config.layers.size());
  CAIRN_TRY(const int32_t shared, keys.integer_or(key, 0, 0, layers - 1));
  for (int32_t i = layers - shared; i < layers; ++i) {
    LayerConfig& layer = config.layers[i];
    for (int32_t other = layers - shared - 1; other >= 0 && layer.kv_layer == kOwnKv; --other) {
      if ((config.layers[other].window > 0) == (layer.window > 0)) layer.kv_layer = other;
    }
    if (layer.kv_layer == kOwnKv) {
      return fail(Code::kCorruptFile, "{} is {}, but no layer before has keys and values that layer {} could read",
                  keys.full(key), shared, i);
    }
    layer.kv_heads = config.layers[layer.kv_layer].kv_heads;
  }
  return {};
}

Result<void> read_values_config(const MetadataReader& keys, DecoderConfig& config) {
  config.value_norm = true;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    if (layer.window > 0 || layer.kv_layer != kOwnKv) continue;
    layer.value_is_key = keys.file().find_tensor(fmt::format("blk.{}.attn_v.weight", i)) == nullptr;
    if (layer.value_is_key && config.key_dim != config.value_dim) {
      return fail(Code::kCorruptFile,
                  "layer {} has no attn_v, but its keys, with {} elements, cannot be its values, "
                  "with {}",
                  i, config.key_dim, config.value_dim);
    }
  }
  return {};
}

Result<void> read_common_config(const MetadataReader& keys, DecoderConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding));
  config.feed_forward.activation = kernels::Activation::kGeluTanh;
  config.residual.post_norms = true;
  config.qk_norm = QkNorm::kPerHead;
  config.attention_scale = 1;
  config.layer_output_scale = true;
  CAIRN_TRY(config.final_logit_softcap, keys.number_or("final_logit_softcapping", 0));
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return read_window_layers(keys, config);
}

}  // namespace

// Gemma 4: norms before and after, normalised values, layers with a window that have heads of another size. The small
// ones have inputs for each layer and layers without keys and values; one has experts beside each dense feed-forward.
Result<void> read_gemma4_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_common_config(keys, config));
  CAIRN_TRY_VOID(read_shared_kv(keys, config));
  CAIRN_TRY_VOID(read_values_config(keys, config));
  CAIRN_TRY(config.per_layer_input, keys.integer_or("embedding_length_per_layer_input", 0, 0, kEmbeddingMax));
  CAIRN_TRY_VOID(read_experts_config(keys, false, config));
  if (!config.experts) return {};
  config.experts->route.renormalise = true;
  config.experts->beside_dense = true;
  config.experts->router_norm = true;
  return {};
}

// The assistants of Gemma 4: layers like its own without keys and values, which they read from the model's.
Result<void> read_gemma4_assistant_config(const MetadataReader& keys, DecoderConfig& config) {
  for (const char* key : {"nextn_predict_layers", "attention.shared_kv_layers", "embedding_length_out",
                          "embedding_length_per_layer_input"}) {
    keys.mark_read(key);
  }
  CAIRN_TRY_VOID(read_common_config(keys, config));
  config.final_logit_softcap = 0;  // it would change no choice
  constexpr int32_t kOfTheModel = 0;
  for (LayerConfig& layer : config.layers) layer.kv_layer = kOfTheModel;
  return {};
}

}  // namespace cairn::model
