#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/backend.h"
#include "model/model_options.h"

namespace cairn::model {

namespace {

Result<void> read_kv_heads(const MetadataReader& keys, DecoderConfig& config) {
  const char* key = "attention.head_count_kv";
  config.kv_heads = config.heads;
  if (!keys.contains(key)) return {};
  CAIRN_TRY(const std::vector<int64_t> heads, keys.per_layer(key, std::ssize(config.layers), 1, config.heads));
  for (const int64_t each : heads) {
    if (config.heads % each == 0) continue;
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} query heads of {}", keys.full(key), each,
                config.heads, keys.full("attention.head_count"));
  }
  config.kv_heads = static_cast<int32_t>(std::ranges::max(heads));
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] != config.kv_heads) config.layers[i].kv_heads = static_cast<int32_t>(heads[i]);
  }
  return {};
}

Result<void> read_feed_forward_length(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(const std::vector<int64_t> lengths,
            keys.per_layer("feed_forward_length", std::ssize(config.layers), 1, kFeedForwardMax));
  config.feed_forward.length = std::ranges::max(lengths);
  for (size_t i = 0; i < lengths.size(); ++i) config.layers[i].feed_forward_length = lengths[i];
  return {};
}

Result<void> read_heads(const MetadataReader& keys, bool hybrid, DecoderConfig& config) {
  if (hybrid) {
    CAIRN_TRY_VOID(read_hybrid_heads(keys, config));
    if (config.heads == 0) return {};
    if (config.heads % config.kv_heads != 0) {
      return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} query heads of {}",
                  keys.full("attention.head_count_kv"), config.kv_heads, config.heads,
                  keys.full("attention.head_count"));
    }
  } else {
    CAIRN_TRY(config.heads, keys.integer("attention.head_count", 1, kHeadsMax));
    CAIRN_TRY_VOID(read_kv_heads(keys, config));
  }
  if (!keys.contains("attention.key_length") && config.embedding % config.heads != 0) {
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} of {}", keys.full("attention.head_count"),
                config.heads, config.embedding, keys.full("embedding_length"));
  }
  const int64_t head_dim = config.embedding / config.heads;
  if (head_dim > kHeadDimMax && !keys.contains("attention.key_length")) {
    return fail(Code::kCorruptFile, "heads of {} elements ({} / {}); {} is the most", head_dim,
                keys.full("embedding_length"), keys.full("attention.head_count"), kHeadDimMax);
  }
  CAIRN_TRY(config.key_dim, keys.integer_or("attention.key_length", head_dim, 1, kHeadDimMax));
  CAIRN_TRY(config.value_dim, keys.integer_or("attention.value_length", config.key_dim, 1, kHeadDimMax));
  config.attention_scale = 1 / std::sqrt(static_cast<float>(config.key_dim));
  return {};
}

Result<void> read_context(const MetadataReader& keys, int32_t context_tokens, DecoderConfig& config) {
  CAIRN_TRY(config.context_trained, keys.integer("context_length", 1, kContextMax));
  CAIRN_TRY(config.context_tokens, context_of_run(config.context_trained, context_tokens));
  return {};
}

Result<void> read_pooling_and_head(const MetadataReader& keys, DecoderConfig& config) {
  const gguf::Reader& file = keys.file();
  CAIRN_TRY(config.pooling, read_pooling(file, Pooling::kLast));
  const gguf::Tensor* head = file.find_tensor("cls.output.weight");
  if (head == nullptr) return {};
  const int64_t rows = head->shape.size() < 2 ? 1 : head->shape[1];
  if (rows > 2 || file.find_tensor("cls.weight") != nullptr) return {};
  // Other classes than yes and no do not say how well texts go together.
  if (const std::string labels = keys.full("classifier.output_labels"); rows == 2 && file.metadata().contains(labels)) {
    CAIRN_TRY(const auto names, file.metadata().strings(labels));
    if (names.size() != 2 || names[0] != "yes" || names[1] != "no") return {};
  }
  config.labels = rows;
  return {};
}

void complete_layer(const DecoderConfig& config, LayerConfig& layer) {
  if (layer.kv_heads == 0) layer.kv_heads = config.kv_heads;
  if (layer.key_dim == 0) layer.key_dim = config.key_dim;
  if (layer.value_dim == 0) layer.value_dim = config.value_dim;
  if (layer.feed_forward_length == 0) layer.feed_forward_length = config.feed_forward.length;
}

void complete_layers(DecoderConfig& config) {
  for (LayerConfig& layer : config.layers) complete_layer(config, layer);
  if (config.mtp_layer) complete_layer(config, *config.mtp_layer);
}

/// The largest of what `elements` gives for each layer.
template <class Elements>
int64_t most_of_layers(const DecoderConfig& config, Elements elements) {
  int64_t most = config.mtp_layer ? elements(*config.mtp_layer) : 0;
  for (const LayerConfig& layer : config.layers) most = std::max<int64_t>(most, elements(layer));
  return most;
}

Result<void> check_causal(const MetadataReader& keys) {
  const char* key = "attention.causal";
  CAIRN_TRY(const bool causal, keys.boolean_or(key, true));
  if (causal) return {};
  return fail(Code::kUnsupported, "{} is false, but {} is known as a model that writes text only", keys.full(key),
              keys.architecture());
}

}  // namespace

AttentionConfig DecoderConfig::attention(const LayerConfig& layer) const {
  return {.heads = heads,
          .kv_heads = layer.kv_heads,
          .key_dim = layer.key_dim,
          .value_dim = layer.value_dim,
          .scale = attention_scale,
          .soft_cap = attention_logit_softcap,
          .window = layer.window,
          .chunked = chunked_windows,
          .qk_norm = layer.qk_norm ? qk_norm : QkNorm::kNone,
          .qk_norm_after_rope = qk_norm_after_rope,
          .value_norm = value_norm,
          .value_is_key = layer.value_is_key,
          .own_kv = layer.kv_layer == kOwnKv,
          .gated = gated_attention,
          .sinks = attention_sinks,
          .norm_epsilon = norm.epsilon};
}

PerLayerInputConfig DecoderConfig::per_layer_inputs(int32_t begin, int32_t end) const {
  return {.elements = per_layer_input,
          .vocabulary = vocabulary,
          .embedding = embedding,
          .layers = static_cast<int32_t>(layers.size()),
          .begin = begin,
          .end = end,
          .activation = feed_forward.activation,
          .norm_epsilon = norm.epsilon};
}

MoeConfig DecoderConfig::most_experts() const {
  MoeConfig most = experts.value_or(MoeConfig{});
  if (!dspark) return most;
  most.route.experts = std::max(most.route.experts, dspark->experts.route.experts);
  most.route.used = std::max(most.route.used, dspark->experts.route.used);
  return most;
}

LayerConfig DecoderConfig::window_layer() const {
  LayerConfig layer = layers.back();
  layer.compressed = {};
  layer.engram = -1;
  layer.hashed_experts = false;
  return layer;
}

std::vector<CompressedLayerConfig> DecoderConfig::compressed_layers() const {
  std::vector<CompressedLayerConfig> all;
  for (const LayerConfig& layer : layers) all.push_back(layer.compressed);
  return all;
}

int64_t DecoderConfig::query_elements() const {
  return heads * most_of_layers(*this, [](const LayerConfig& layer) { return layer.key_dim; });
}

int64_t DecoderConfig::key_elements() const {
  return most_of_layers(*this, [](const LayerConfig& layer) { return int64_t{layer.kv_heads} * layer.key_dim; });
}

int64_t DecoderConfig::value_elements() const {
  return most_of_layers(*this, [](const LayerConfig& layer) { return int64_t{layer.kv_heads} * layer.value_dim; });
}

int64_t DecoderConfig::attended_elements() const {
  return heads * most_of_layers(*this, [](const LayerConfig& layer) { return layer.value_dim; });
}

int32_t DecoderConfig::head_dim() const {
  return static_cast<int32_t>(
      most_of_layers(*this, [](const LayerConfig& layer) { return std::max(layer.key_dim, layer.value_dim); }));
}

int64_t DecoderConfig::dense_inner_elements() const {
  const bool beside = experts && experts->beside_dense;
  return most_of_layers(
      *this, [&](const LayerConfig& layer) { return layer.routed && !beside ? 0 : layer.feed_forward_length; });
}

Result<int64_t> read_vocabulary(const MetadataReader& keys) {
  const gguf::Tensor* table = keys.file().find_tensor("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    return fail_at("tensor token_embd.weight", Code::kCorruptFile,
                   "token_embd.weight is {}, but a model needs a matrix [vocabulary, embedding]",
                   table == nullptr ? "missing" : "not a matrix");
  }
  const int64_t rows = table->shape[1];
  if (rows < 1 || rows > kVocabularyMax) {
    return fail_at("tensor token_embd.weight", Code::kCorruptFile,
                   "token_embd.weight has {} rows, but a vocabulary has 1 .. {}", rows, kVocabularyMax);
  }
  int64_t tokens = rows;
  std::string from = keys.full("vocab_size");
  if (keys.file().metadata().contains("tokenizer.ggml.tokens")) {
    from = "tokenizer.ggml.tokens";
    CAIRN_TRY(const auto list, keys.file().metadata().strings(from));
    tokens = static_cast<int64_t>(list.size());
  } else {
    CAIRN_TRY(tokens, keys.integer_or("vocab_size", rows, 1, kVocabularyMax));
  }
  if (tokens != rows) {
    return fail_at("tensor token_embd.weight", Code::kCorruptFile,
                   "token_embd.weight has {} rows, but {} has {} tokens", rows, from, tokens);
  }
  return rows;
}

Result<int32_t> context_of_run(int32_t trained, int32_t wanted) {
  const int32_t tokens = wanted == 0 ? trained : wanted;
  if (tokens < 1 || tokens > trained) {
    return fail(Code::kInvalidArgument, "a context of {} tokens was asked for, but the model was trained for 1 .. {}",
                tokens, trained);
  }
  return tokens;
}

Result<DecoderConfig> read_decoder_config(const gguf::Reader& file, const DecoderReader& reader,
                                          int32_t context_tokens) {
  if (reader.whole != nullptr) return reader.whole(file, context_tokens);
  const MetadataReader keys(file, reader.architecture);
  DecoderConfig config;
  CAIRN_TRY(const int64_t layers, keys.integer("block_count", 1, kLayersMax));
  config.layers.resize(layers);
  CAIRN_TRY(config.embedding, keys.integer("embedding_length", 1, kEmbeddingMax));
  if (reader.hybrid) {
    CAIRN_TRY_VOID(read_hybrid_feed_forward(keys, config));
  } else {
    CAIRN_TRY_VOID(read_feed_forward_length(keys, config));
  }
  CAIRN_TRY_VOID(read_heads(keys, reader.hybrid, config));
  CAIRN_TRY_VOID(read_context(keys, context_tokens, config));
  CAIRN_TRY(config.vocabulary, read_vocabulary(keys));
  CAIRN_TRY_VOID(read_pooling_and_head(keys, config));
  CAIRN_TRY_VOID(check_causal(keys));
  CAIRN_TRY_VOID(reader.complete(keys, config));
  complete_layers(config);
  CAIRN_TRY(config.norm.epsilon, read_norm_epsilon(keys, config.norm.kind, true));
  if (config.recurrent) {
    config.recurrent->embedding = config.embedding;
    config.recurrent->norm_epsilon = config.norm.epsilon;
    config.recurrent->beside_attention =
        std::ranges::find(config.layers, Mixer::kAttentionAndMamba2, &LayerConfig::mixer) != config.layers.end();
  }
  if (config.mla) {
    config.mla->heads = config.heads;
    config.mla->value_dim = config.value_dim;
    config.mla->scale = config.attention_scale;
    config.mla->norm_epsilon = config.norm.epsilon;
  }
  config.unread_keys = keys.unread();
  return config;
}

Result<void> read_windows_config(const MetadataReader& keys, int64_t window, int64_t period, int32_t window_rope,
                                 DecoderConfig& config) {
  CAIRN_TRY(const std::vector<bool> windows, keys.window_pattern(config.layers.size(), period));
  for (size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i]) continue;
    config.layers[i].window = static_cast<int32_t>(window);
    config.layers[i].rope = window_rope;
  }
  return {};
}

Result<void> read_window_everywhere_config(const MetadataReader& keys, int64_t missing, DecoderConfig& config) {
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", missing, 0, kContextMax));
  if (window == 0 || window >= config.context_tokens) return {};
  for (LayerConfig& layer : config.layers) layer.window = static_cast<int32_t>(window);
  return {};
}

Result<void> read_experts_config(const MetadataReader& keys, bool required, DecoderConfig& config) {
  CAIRN_TRY(const int64_t count, keys.integer_or("expert_count", 0, required ? 1 : 0, kExpertsMax));
  if (count == 0 && !required) return {};
  CAIRN_TRY(config.experts, read_experts(keys, config.feed_forward.length));
  const auto layers = static_cast<int64_t>(config.layers.size());
  CAIRN_TRY(const int64_t dense, keys.integer_or("leading_dense_block_count", 0, 0, layers));
  for (int64_t i = dense; i < layers; ++i) config.layers[i].routed = true;
  return {};
}

Result<void> read_routing_config(const MetadataReader& keys, const RoutingDefaults& missing, DecoderConfig& config) {
  if (!config.experts) return {};
  return read_routing(keys, missing, *config.experts);
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

Result<void> read_mla_config(const MetadataReader& keys, int32_t rope_dims, DecoderConfig& config) {
  CAIRN_TRY(config.mla, read_mla(keys, rope_dims));
  config.value_dim = config.mla->value_dim;
  config.kv_heads = 1;
  config.key_dim = config.mla->row_dim();
  return {};
}

Result<void> read_temperature_config(const MetadataReader& keys, float missing, DecoderConfig& config) {
  CAIRN_TRY(config.temperature_scale, keys.number_or("attention.temperature_scale", missing));
  if (config.temperature_scale == 0) return {};
  CAIRN_TRY(const int64_t original,
            keys.integer_or("rope.scaling.original_context_length", config.context_trained, 1, kContextMax));
  CAIRN_TRY(config.temperature_length, keys.integer_or("attention.temperature_length", original, 1, kContextMax));
  return {};
}

namespace {

int32_t stage_of_layer(int64_t layer, std::span<const PipelineStage> stages) {
  const auto last = static_cast<int32_t>(stages.size()) - 1;
  int64_t end = 0;
  for (int32_t stage = 0; stage < last; ++stage) {
    end += stages[stage].layers;
    if (layer < end) return stage;
  }
  return last;
}

}  // namespace

KvPlan kv_plan_of(const DecoderConfig& config, std::span<const PipelineStage> stages, const ModelOptions& options) {
  KvPlan plan;
  cache::KvLayout& layout = plan.layout;
  layout.type = options.kv_type;
  const auto add_kv = [&](const LayerConfig& layer, int32_t device) -> KvPlace {
    const cache::KvKind kind = config.mla         ? cache::KvKind::kLatent
                               : layer.window > 0 ? cache::KvKind::kWindow
                                                  : cache::KvKind::kFull;
    cache::KvLayer kv{.kv_heads = layer.kv_heads, .key_dim = layer.key_dim, .value_dim = layer.value_dim};
    if (config.mla) {
      kv.value_dim = 0;
    } else {
      kv.type = stages[device].backend->stored_kv_type(options.kv_type);
    }
    const KvPlace place = add_kv_layer(kind, layer.window, device, kv, layout);
    if (config.mla && config.mla->indexer && layer.indexer) {
      layout.groups[place.group].layers.push_back({.kv_heads = 1, .key_dim = config.mla->indexer->key_dim});
    }
    return place;
  };
  const auto add_compressed = [&](const LayerConfig& layer, int32_t window, int32_t device) {
    plan.compressed.push_back(
        add_compressed_kv(*config.compressed, layer.compressed, window, device, plan.compressed, layout));
  };
  for (const LayerConfig& layer : config.layers) {
    const int32_t device = stage_of_layer(std::ssize(plan.places), stages);
    StatePlace& state = plan.states.emplace_back();
    if (config.compressed) add_compressed(layer, config.compressed->window, device);
    if (layer.recurs()) {
      state.group = kv_group_of(cache::KvKind::kState, 0, device, layout);
      int64_t& bytes = layout.groups[state.group].state_bytes;
      state.offset = bytes;
      bytes += config.recurrent->layer_bytes();
    }
    if (layer.kv_layer != kOwnKv) {
      plan.places.push_back(plan.places[layer.kv_layer]);
    } else {
      plan.places.push_back(layer.attends() ? add_kv(layer, device) : KvPlace{});
    }
  }
  const auto device = static_cast<int32_t>(stages.size()) - 1;
  if (config.mtp_layer && config.compressed) {
    add_compressed(*config.mtp_layer, config.compressed->window, device);
  } else if (config.mtp_layer) {
    plan.places.push_back(add_kv(*config.mtp_layer, device));
  }
  // The first row of a block of drafts is not the model's yet: behind it are as many that are.
  const int32_t drafting = config.dspark ? config.dspark->stages : 0;
  for (int32_t i = 0; i < drafting; ++i) add_compressed(config.dspark->layer, config.compressed->window + 1, device);
  int32_t last_device = -1;
  for (const int32_t layer : config.engram.layers) {
    const int32_t its_device = stage_of_layer(layer, stages);
    // A row of a position has all that the next one's hashes look back at.
    const cache::KvLayer classes{.kv_heads = 1, .key_dim = config.engram.order - 1, .type = kernels::KvType::kF32};
    plan.engram_classes.push_back(its_device == last_device
                                      ? plan.engram_classes.back()
                                      : add_kv_layer(cache::KvKind::kWindow, 2, its_device, classes, layout));
    last_device = its_device;
  }
  if (config.keeps_rows) {
    // A row reads that of the position before it.
    const auto width = static_cast<int32_t>(config.residual.streams() * config.embedding);
    plan.mtp_rows = {static_cast<int32_t>(layout.groups.size()), 0};
    layout.groups.push_back({.kind = cache::KvKind::kWindow,
                             .window = 2,
                             .layers = {{.kv_heads = 1, .key_dim = width, .type = kernels::KvType::kF32}},
                             .device = device,
                             .optional = true});
  }
  return plan;
}

}  // namespace cairn::model
