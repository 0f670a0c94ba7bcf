#include "model/encoder/encoder_config.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "model/parts/rope.h"

namespace cairn::model {
namespace {

/// Rows of a table [rows, width] that a file may leave out.
int64_t rows_of(const gguf::Reader& file, std::string_view tensor) {
  const gguf::Tensor* found = file.find_tensor(tensor);
  if (found == nullptr) return 0;
  return found->shape.size() < 2 ? 1 : found->shape[1];
}

Result<void> read_heads(const MetadataReader& keys, EncoderConfig& config) {
  CAIRN_TRY(config.heads, keys.integer("attention.head_count", 1, kHeadsMax));
  CAIRN_TRY(config.kv_heads, keys.integer_or("attention.head_count_kv", config.heads, 1, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return fail(Code::kCorruptFile, "{} is {}, which does not divide the {} query heads of {}",
                keys.full("attention.head_count_kv"), config.kv_heads, config.heads, keys.full("attention.head_count"));
  }
  const bool divides = config.embedding % config.heads == 0 && config.embedding / config.heads <= kHeadDimMax;
  if (!divides && !keys.contains("attention.key_length")) {
    return fail(Code::kCorruptFile, "{} is {} and {} is {}: heads must divide it into parts of {} at most",
                keys.full("embedding_length"), config.embedding, keys.full("attention.head_count"), config.heads,
                kHeadDimMax);
  }
  CAIRN_TRY(config.head_dim, keys.integer_or("attention.key_length", config.embedding / config.heads, 1, kHeadDimMax));
  CAIRN_TRY(const int64_t value_dim, keys.integer_or("attention.value_length", config.head_dim, 1, kHeadDimMax));
  if (value_dim != config.head_dim) {
    return fail(Code::kUnsupported, "{} is {} and {} is {}: encoders have heads with keys and values of one length",
                keys.full("attention.value_length"), value_dim, keys.full("attention.key_length"), config.head_dim);
  }
  CAIRN_TRY(const float scale, keys.number_or("attention.scale", 0));
  if (scale < 0) {
    return fail(Code::kCorruptFile, "{} is {}, but it must not be negative", keys.full("attention.scale"), scale);
  }
  config.attention_scale = scale > 0 ? scale : 1 / std::sqrt(static_cast<float>(config.head_dim));
  return {};
}

Result<void> read_sizes(const MetadataReader& keys, EncoderConfig& config) {
  CAIRN_TRY(const int64_t layers, keys.integer("block_count", 1, kLayersMax));
  config.layers.resize(layers);
  CAIRN_TRY(config.embedding, keys.integer("embedding_length", 1, kEmbeddingMax));
  CAIRN_TRY(config.feed_forward.length, keys.integer("feed_forward_length", 1, kFeedForwardMax));
  CAIRN_TRY_VOID(read_heads(keys, config));
  CAIRN_TRY(const bool causal, keys.boolean_or("attention.causal", false));
  if (causal) {
    return fail(Code::kUnsupported, "{} is true, but {} is known as an encoder only", keys.full("attention.causal"),
                keys.architecture());
  }
  CAIRN_TRY(config.vocabulary, read_vocabulary(keys));
  return {};
}

/// Outputs of a layer `name` over pooled rows of `inputs` numbers; 0: the file has none.
Result<int64_t> read_dense(const MetadataReader& keys, const std::string& name, int64_t inputs) {
  const std::string tensor = name + ".weight";
  const int64_t outputs = rows_of(keys.file(), tensor);
  if (outputs == 0) {
    for (const char* end : {"_feat_in", "_feat_out"}) {
      if (!keys.contains(name + end)) continue;
      return fail_at(fmt::format("tensor {}", tensor), Code::kCorruptFile, "the file has {}, but no tensor {}",
                     keys.full(name + end), tensor);
    }
    return 0;
  }
  if (outputs > kEmbeddingMax) {
    return fail_at(fmt::format("tensor {}", tensor), Code::kCorruptFile, "{} has {} outputs; {} is the most", tensor,
                   outputs, kEmbeddingMax);
  }
  for (const auto& [key, size] : {std::pair(name + "_feat_in", inputs), {name + "_feat_out", outputs}}) {
    CAIRN_TRY(const int64_t said, keys.integer_or(key, size, 1, kEmbeddingMax));
    if (said == size) continue;
    return fail(Code::kCorruptFile, "{} is {}, but {} maps {} numbers to {}", keys.full(key), said, tensor, inputs,
                outputs);
  }
  return outputs;
}

Result<void> read_heads_of_pooled_rows(const MetadataReader& keys, EncoderConfig& config) {
  const gguf::Reader& file = keys.file();
  CAIRN_TRY(config.dense_2, read_dense(keys, "dense_2", config.embedding));
  CAIRN_TRY(config.dense_3, read_dense(keys, "dense_3", config.dense_2 > 0 ? config.dense_2 : config.embedding));
  const int64_t outputs = rows_of(file, "cls.output.weight");
  const int64_t dense = rows_of(file, "cls.weight");
  // A head of one layer has either name.
  config.labels = outputs > 0 ? outputs : dense;
  if (config.labels > kEmbeddingMax) {
    const char* name = outputs > 0 ? "cls.output.weight" : "cls.weight";
    return fail_at(fmt::format("tensor {}", name), Code::kCorruptFile, "{} has {} outputs; {} is the most", name,
                   config.labels, kEmbeddingMax);
  }
  if (const std::string key = keys.full("classifier.output_labels");
      config.labels > 0 && file.metadata().contains(key)) {
    CAIRN_TRY(const auto names, file.metadata().strings(key));
    if (std::ssize(names) != config.labels) {
      return fail(Code::kCorruptFile, "{} has {} names, but {} has {} outputs", key, names.size(),
                  outputs > 0 ? "cls.output.weight" : "there is no cls.output.weight, and cls.weight", config.labels);
    }
  }
  config.label_dense = outputs > 0 && dense > 0;
  config.label_norm = config.label_dense && file.find_tensor("cls.norm.weight") != nullptr;
  CAIRN_TRY(config.pooling, read_pooling(file, config.labels == 1 ? Pooling::kRank : Pooling::kMean));
  if (config.pooling == Pooling::kRank && config.labels == 0) {
    return fail_at("tensor cls.output.weight", Code::kCorruptFile,
                   "{} says that the model ranks texts, but the file has neither cls.output.weight nor cls.weight",
                   keys.full("pooling_type"));
  }
  return {};
}

/// Variants that have more than their architecture's first files, and would be computed wrongly without it.
Result<void> refuse_variants(const gguf::Reader& file, const EncoderConfig& config) {
  const auto refuse = [&](const char* name, bool known) -> Result<void> {
    if (known || file.find_tensor(name) == nullptr) return {};
    return fail_at(fmt::format("tensor {}", name), Code::kUnsupported,
                   "the file has a tensor {}: encoders with it are not supported", name);
  };
  CAIRN_TRY_VOID(refuse("blk.0.attn_q_norm.weight", config.qk_norm));
  CAIRN_TRY_VOID(refuse("blk.0.attn_norm_2.weight", false));
  CAIRN_TRY_VOID(refuse("blk.0.ffn_gate_inp.weight", config.layers[0].routed));
  return {};
}

}  // namespace

AttentionConfig EncoderConfig::attention(const EncoderLayerConfig& layer) const {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .key_dim = head_dim,
          .value_dim = head_dim,
          .scale = attention_scale,
          .window = layer.window,
          .causal = false,
          .qk_norm = qk_norm ? QkNorm::kPerHead : QkNorm::kNone,
          .norm_epsilon = norm.epsilon};
}

Result<EncoderConfig> read_encoder_config(const gguf::Reader& file, std::string_view architecture,
                                          ReadEncoderConfig complete, int32_t context_tokens) {
  const MetadataReader keys(file, architecture);
  EncoderConfig config;
  CAIRN_TRY_VOID(read_sizes(keys, config));
  CAIRN_TRY(config.context_trained, keys.integer("context_length", 1, kContextMax));
  CAIRN_TRY(config.context_tokens, context_of_run(config.context_trained, context_tokens));
  config.token_types = rows_of(file, "token_types.weight");
  CAIRN_TRY_VOID(read_heads_of_pooled_rows(keys, config));
  CAIRN_TRY_VOID(complete(keys, config));
  CAIRN_TRY(config.norm.epsilon, read_norm_epsilon(keys, config.norm.kind, false));
  CAIRN_TRY_VOID(refuse_variants(file, config));
  config.unread_keys = keys.unread();
  return config;
}

Result<void> read_encoder_rope(const MetadataReader& keys, EncoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  for (EncoderLayerConfig& layer : config.layers) layer.rope = static_cast<int32_t>(config.ropes.size());
  config.ropes.push_back(std::move(rope));
  return {};
}

Result<void> read_encoder_windows(const MetadataReader& keys, const std::vector<bool>& windows, double base,
                                  EncoderConfig& config) {
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", 0, 0, kContextMax));
  if (window == 0) return {};
  CAIRN_TRY(RopeConfig rope, read_window_rope(keys, kernels::RopeStyle::kNeoX, base, config.rope_sizes()));
  for (size_t i = 0; i < windows.size(); ++i) {
    if (!windows[i]) continue;
    config.layers[i].window = static_cast<int32_t>(window);
    config.layers[i].rope = static_cast<int32_t>(config.ropes.size());
  }
  config.ropes.push_back(std::move(rope));
  return {};
}

std::vector<float> alibi_slopes(int32_t heads) {
  constexpr double kLargestExponent = 8;
  const auto below = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(heads)));
  std::vector<float> slopes;
  for (int32_t head = 0; head < heads; ++head) {
    const double step = head < below ? head + 1 : head - below + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-kLargestExponent * step / below)));
  }
  return slopes;
}

}  // namespace cairn::model
