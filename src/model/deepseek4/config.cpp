#include "model/deepseek4/config.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/hyper_connection_operations.h"
#include "model/metadata_reader.h"

namespace cairn::deepseek4 {
namespace {

constexpr int64_t kStreamRoundsMax = 100;
constexpr int64_t kWindowMax = 1 << 16;
constexpr int64_t kRankMax = 1 << 16;

Result<void> expect(const MetadataReader& keys, std::string_view key, bool fine, auto value, std::string_view wanted) {
  if (fine) return {};
  return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} is {}, but {}", keys.full(key), value, wanted);
}

Result<void> read_streams(const MetadataReader& keys, ModelConfig& model) {
  CAIRN_TRY(model.streams, keys.integer("hyper_connection.count", 1, kStreamsMax));
  CAIRN_TRY(model.stream_rounds, keys.integer("hyper_connection.sinkhorn_iterations", 1, kStreamRoundsMax));
  CAIRN_TRY(model.stream_epsilon, keys.positive_or("hyper_connection.epsilon", 1e-6F));
  return {};
}

Result<void> read_attention(const MetadataReader& keys, ModelConfig& model) {
  CAIRN_TRY(model.heads, keys.integer("attention.head_count", 1, kHeadsMax));
  CAIRN_TRY(const int64_t kv_heads, keys.integer_or("attention.head_count_kv", 1, 0, kHeadsMax));
  CAIRN_TRY_VOID(
      expect(keys, "attention.head_count_kv", kv_heads == 1, kv_heads, "one row is key and value of all heads"));
  CAIRN_TRY(model.head_dim, keys.integer("attention.key_length", 1, kHeadDimMax));
  CAIRN_TRY(const int64_t value_dim, keys.integer_or("attention.value_length", model.head_dim, 1, kHeadDimMax));
  CAIRN_TRY_VOID(expect(keys, "attention.value_length", value_dim == model.head_dim, value_dim,
                        fmt::format("values are the keys, which have {}", model.head_dim)));
  CAIRN_TRY(model.rope_dims, keys.integer("rope.dimension_count", 2, model.head_dim));
  CAIRN_TRY_VOID(expect(keys, "rope.dimension_count", model.rope_dims % 2 == 0, model.rope_dims,
                        "rotated elements come in pairs"));
  CAIRN_TRY(model.window, keys.integer("attention.sliding_window", 1, kWindowMax));
  CAIRN_TRY(model.q_lora_rank, keys.integer("attention.q_lora_rank", 1, kRankMax));
  CAIRN_TRY(model.output_rank, keys.integer("attention.output_lora_rank", 1, kRankMax));
  CAIRN_TRY(model.output_groups, keys.integer("attention.output_group_count", 1, model.heads));
  return expect(keys, "attention.output_group_count", model.heads % model.output_groups == 0, model.output_groups,
                fmt::format("it must divide the {} heads", model.heads));
}

Result<void> read_index(const MetadataReader& keys, ModelConfig& model) {
  CAIRN_TRY(model.index_heads, keys.integer("attention.indexer.head_count", 1, kHeadsMax));
  CAIRN_TRY(model.index_dim, keys.integer("attention.indexer.key_length", 1, kHeadDimMax));
  CAIRN_TRY(model.index_rows, keys.integer("attention.indexer.top_k", 1, kContextMax));
  CAIRN_TRY_VOID(expect(keys, "attention.indexer.key_length", model.index_dim >= model.rope_dims, model.index_dim,
                        fmt::format("{} of its elements turn", model.rope_dims)));
  return expect(keys, "attention.indexer.key_length", (model.index_dim & (model.index_dim - 1)) == 0, model.index_dim,
                "it must be a power of two");
}

Result<void> read_routed_experts(const MetadataReader& keys, ModelConfig& model) {
  constexpr float kSumLeast = 0x1p-14F;
  model.experts.route.score = RouteScore::kSqrtSoftplus;
  model.experts.route.renormalise = true;
  model.experts.route.sum_least = kSumLeast;
  CAIRN_TRY(model.experts.route.experts, keys.integer("expert_count", 1, kExpertsMax));
  CAIRN_TRY(model.experts.route.used,
            keys.integer("expert_used_count", 1, std::min<int64_t>(model.experts.route.experts, kExpertsUsedMax)));
  CAIRN_TRY(model.experts.width, keys.integer("expert_feed_forward_length", 1, kFeedForwardMax));
  CAIRN_TRY(const int64_t shared, keys.integer_or("expert_shared_count", 1, 0, kExpertsUsedMax));
  model.experts.shared_width = shared * model.experts.width;
  CAIRN_TRY(model.experts.route.scale, keys.positive_or("expert_weights_scale", 1));
  CAIRN_TRY(const bool normalised, keys.boolean_or("expert_weights_norm", true));
  CAIRN_TRY_VOID(expect(keys, "expert_weights_norm", normalised, normalised, "it must be true"));
  constexpr int64_t kSqrtSoftplus = 4;
  CAIRN_TRY(const int64_t gating, keys.integer_or("expert_gating_func", kSqrtSoftplus, 0, 255));
  CAIRN_TRY_VOID(
      expect(keys, "expert_gating_func", gating == kSqrtSoftplus, gating, "4 (square root of softplus) was expected"));
  CAIRN_TRY(const int64_t groups, keys.integer_or("expert_group_count", 0, 0, kExpertsMax));
  return expect(keys, "expert_group_count", groups <= 1, groups, "groups of experts are not part of this architecture");
}

/// A number for every layer; more are those of blocks behind the last.
template <class T>
Result<void> check_count(const MetadataReader& keys, std::string_view key, const std::vector<T>& values,
                         size_t layers) {
  if (values.size() >= layers) return {};
  return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} has {} entries, but there are {} layers",
                 keys.full(key), values.size(), layers);
}

Result<void> read_ratios(const MetadataReader& keys, ModelConfig& model) {
  constexpr std::string_view kKey = "attention.compress_ratios";
  CAIRN_TRY(const std::vector<int64_t> ratios, keys.file().metadata().integers(keys.full(kKey)));
  CAIRN_TRY_VOID(check_count(keys, kKey, ratios, model.layers.size()));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const int64_t ratio = ratios[i];
    const bool whole = ratio == 0 || (ratio > 1 && ratio <= kCompressorSpanMax / 2 &&
                                      (kPageTokens % ratio == 0 || ratio % kPageTokens == 0));
    if (!whole) {
      return fail_at("key " + keys.full(kKey), Code::kCorruptFile,
                     "{} has {} for layer {}; 0, {} and multiples or divisors of {} up to {} are supported",
                     keys.full(kKey), ratio, i, kIndexedRatio, kPageTokens, kCompressorSpanMax / 2);
    }
    model.layers[i].ratio = static_cast<int32_t>(ratio);
    model.layers[i].indexed = ratio == kIndexedRatio;
    model.layers[i].makes_rows = ratio > 0;
    model.layers[i].rows_of = ratio > 0 ? static_cast<int32_t>(i) : -1;
  }
  return {};
}

Result<void> read_clamps(const MetadataReader& keys, ModelConfig& model) {
  constexpr std::string_view kRouted = "swiglu_clamp_exp", kShared = "swiglu_clamp_shexp";
  CAIRN_TRY(const std::vector<float> routed, keys.file().metadata().floats(keys.full(kRouted)));
  CAIRN_TRY_VOID(check_count(keys, kRouted, routed, model.layers.size()));
  std::vector<float> shared = routed;
  if (keys.contains(kShared)) {
    CAIRN_TRY(shared, keys.file().metadata().floats(keys.full(kShared)));
    CAIRN_TRY_VOID(check_count(keys, kShared, shared, model.layers.size()));
  }
  for (size_t i = 0; i < model.layers.size(); ++i) {
    CAIRN_TRY_VOID(expect(keys, kRouted, routed[i] > 0, routed[i], "every layer's must be above zero"));
    CAIRN_TRY_VOID(expect(keys, kShared, shared[i] > 0, shared[i], "every layer's must be above zero"));
    model.layers[i].clamp = routed[i];
    model.layers[i].shared_clamp = shared[i];
  }
  return {};
}

Result<void> read_layers(const MetadataReader& keys, ModelConfig& model) {
  CAIRN_TRY(int64_t layers, keys.integer("block_count", 1, kLayersMax));
  // Blocks behind the last predict further tokens.
  CAIRN_TRY(const int64_t predicting, keys.integer_or("nextn_predict_layers", 0, 0, layers - 1));
  layers -= predicting;
  model.layers.resize(layers);
  CAIRN_TRY(const int64_t hashed, keys.integer_or("hash_layer_count", 0, 0, layers));
  for (int64_t i = 0; i < hashed; ++i) model.layers[i].hashed = true;
  CAIRN_TRY_VOID(read_ratios(keys, model));
  return read_clamps(keys, model);
}

Result<void> read_ropes(const MetadataReader& keys, ModelConfig& model) {
  RopeParams params;
  params.dims = model.rope_dims;
  CAIRN_TRY(params.base, keys.positive_or("rope.freq_base", 10'000));
  add_ropes(params, model.ropes);
  CAIRN_TRY(params.base, keys.positive_or("attention.compress_rope_freq_base", 160'000));
  CAIRN_TRY(params.factor, keys.positive_or("rope.scaling.factor", 1));
  CAIRN_TRY(params.original_context,
            keys.integer_or("rope.scaling.original_context_length", model.context_trained, 1, kContextMax));
  CAIRN_TRY(params.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", 32));
  CAIRN_TRY(params.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", 1));
  // YaRN's attention factor is 1 in this architecture: rotation keeps the vectors' lengths.
  params.scaling = params.factor == 1 ? RopeScaling::kNone : RopeScaling::kYarn;
  CAIRN_TRY_VOID(expect(keys, "attention.compress_rope_freq_base", params.base != 1, params.base,
                        "it gives every pair the same frequency"));
  add_ropes(params, model.ropes);
  return {};
}

}  // namespace

void add_ropes(const RopeParams& params, std::vector<RopeConfig>& ropes) {
  RopeConfig& there = ropes.emplace_back(RopeStyle::kInterleaved, params.dims, rope_frequencies(params, {}));
  RopeConfig back = there;
  for (double& frequency : back.frequencies) frequency = -frequency;
  ropes.push_back(std::move(back));
}

Result<ModelConfig> describe(const gguf::Reader& file, int32_t context_tokens) {
  const MetadataReader keys(file, kArchitecture);
  ModelConfig model;
  CAIRN_TRY(model.embedding, keys.integer("embedding_length", 1, kEmbeddingMax));
  CAIRN_TRY(model.pooling, read_pooling(keys.file(), Pooling::kLast));
  CAIRN_TRY(model.norm.epsilon, keys.positive_or("attention.layer_norm_rms_epsilon", 1e-6F));
  CAIRN_TRY(model.context_trained, keys.integer("context_length", 1, kContextMax));
  CAIRN_TRY(model.context_tokens, context_of_run(model.context_trained, context_tokens));
  CAIRN_TRY(model.vocabulary, read_vocabulary(keys));
  CAIRN_TRY_VOID(read_streams(keys, model));
  CAIRN_TRY_VOID(read_attention(keys, model));
  CAIRN_TRY_VOID(read_index(keys, model));
  CAIRN_TRY_VOID(read_routed_experts(keys, model));
  CAIRN_TRY_VOID(read_layers(keys, model));
  CAIRN_TRY_VOID(read_ropes(keys, model));
  return model;
}

KvLayout kv_layout_of(const ModelConfig& config, KvType type, std::vector<LayerPlaces>& places) {
  KvLayout layout;
  layout.type = type;
  const auto group_of = [&layout](KvKind kind, int32_t window) {
    const auto same = [&](const KvGroup& group) { return group.kind == kind && group.window == window; };
    const auto found = std::ranges::find_if(layout.groups, same);
    if (found != layout.groups.end()) return static_cast<int32_t>(found - layout.groups.begin());
    layout.groups.push_back({.kind = kind, .window = window, .layers = {}});
    return static_cast<int32_t>(layout.groups.size()) - 1;
  };
  const auto add = [&](KvKind kind, int32_t window, const KvLayer& layer) {
    const int32_t group = group_of(kind, window);
    layout.groups[group].layers.push_back(layer);
    return KvPlace{group, static_cast<int32_t>(layout.groups[group].layers.size()) - 1};
  };
  const auto add_inputs = [&](const CompressorParams& compressor) {
    const KvLayer inputs{.kv_heads = 1, .key_dim = compressor.width(), .type = KvType::kF32};
    return add(KvKind::kWindow, compressor.span(), inputs);
  };
  places.clear();
  for (const LayerConfig& layer : config.layers) {
    LayerPlaces at;
    // The first row of a block of drafts is not the model's yet: behind it are as many that are.
    const bool drafts_block = config.dspark && places.size() >= config.main_layers();
    const int32_t window = config.window + (drafts_block ? 1 : 0);
    at.window = add(KvKind::kWindow, window, {.kv_heads = 1, .key_dim = config.head_dim});
    if (layer.ratio > 0) {
      if (!layer.makes_rows) {
        at.compressed = places[layer.rows_of].compressed;
        at.index = places[layer.rows_of].index;
        places.push_back(at);
        continue;
      }
      at.compressed = add(KvKind::kFull, 0, {.kv_heads = 1, .key_dim = config.head_dim, .tokens_per_row = layer.ratio});
      // A row of one position is made from it alone.
      if (layer.ratio > 1) {
        at.values = add_inputs(config.compressor(layer));
        at.scores = add_inputs(config.compressor(layer));
      }
    }
    if (layer.indexed) {
      at.index = add(KvKind::kFull, 0, {.kv_heads = 1, .key_dim = config.index_dim, .tokens_per_row = layer.ratio});
      if (!config.is_v41) {
        at.index_values = add_inputs(config.index_compressor(layer));
        at.index_scores = add_inputs(config.index_compressor(layer));
      }
    }
    places.push_back(at);
  }
  if (!config.engram.layers.empty()) {
    // A row of a position has all that the next one's hashes look back at.
    const int32_t classes = config.engram.order - 1;
    places.front().classes = add(KvKind::kWindow, 2, {.kv_heads = 1, .key_dim = classes, .type = KvType::kF32});
  }
  if (config.has_mtp) {
    // A row reads the streams of the position before it.
    const auto width = static_cast<int32_t>(config.streams * config.embedding);
    places.back().streams = add(KvKind::kWindow, 2, {.kv_heads = 1, .key_dim = width, .type = KvType::kF32});
  }
  return layout;
}

}  // namespace cairn::deepseek4
