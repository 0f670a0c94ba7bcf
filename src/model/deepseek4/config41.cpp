#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "kernels/hyper_connection_operations.h"
#include "model/deepseek4/config.h"
#include "model/metadata_reader.h"

// Two kinds of files name the same numbers differently: llama.cpp's as those of V4, antirez/ds4's as the model's
// config.json does.
namespace cairn::deepseek4 {
namespace {

Result<void> refuse(const MetadataReader& keys, std::string_view key, auto value, std::string_view wanted) {
  return fail_at("key " + keys.full(key), Code::kCorruptFile, "{} is {}, but {}", keys.full(key), value, wanted);
}

class Config41Reader {
 public:
  Config41Reader(const MetadataReader& keys, ModelConfig& model) : keys_(keys), model_(model) {}

  Result<void> read(int32_t context_tokens) {
    model_.is_v41 = true;
    CAIRN_TRY(model_.embedding, integer("embedding_length", "hidden_size", 1, kEmbeddingMax));
    CAIRN_TRY(model_.pooling, read_pooling(keys_.file(), Pooling::kLast));
    CAIRN_TRY(model_.norm.epsilon, positive_or("attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-20F));
    CAIRN_TRY(model_.context_trained, integer("context_length", "max_position_embeddings", 1, kContextMax));
    CAIRN_TRY(model_.context_tokens, context_of_run(model_.context_trained, context_tokens));
    CAIRN_TRY(model_.vocabulary, read_vocabulary(keys_));
    CAIRN_TRY(model_.streams, integer("hyper_connection.count", "hc_mult", 1, kStreamsMax));
    CAIRN_TRY(model_.stream_rounds,
              integer("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", 1, kStreamRoundsMax));
    CAIRN_TRY(model_.stream_epsilon, positive_or("hyper_connection.epsilon", "hc_eps", 1e-6F));
    CAIRN_TRY_VOID(read_attention());
    CAIRN_TRY_VOID(read_experts());
    CAIRN_TRY_VOID(read_layers());
    CAIRN_TRY_VOID(read_candidates());
    CAIRN_TRY_VOID(read_ropes());
    CAIRN_TRY(model_.engram, read_engram(keys_, model_.vocabulary, std::ssize(model_.layers)));
    model_.engram.streams = model_.streams;
    model_.engram.embedding = model_.embedding;
    model_.engram.norm_epsilon = model_.norm.epsilon;
    for (size_t i = 0; i < model_.engram.layers.size(); ++i) {
      model_.layers[model_.engram.layers[i]].engram = static_cast<int32_t>(i);
    }
    return check_engrams();
  }

 private:
  /// The name that the file has, or the first.
  std::string_view named(std::string_view first, std::string_view second) const {
    return !keys_.contains(first) && keys_.contains(second) ? second : first;
  }
  Result<int64_t> integer(std::string_view first, std::string_view second, int64_t least, int64_t most) const {
    return keys_.integer(named(first, second), least, most);
  }
  Result<int64_t> integer_or(std::string_view first, std::string_view second, int64_t missing, int64_t least,
                             int64_t most) const {
    return keys_.integer_or(named(first, second), missing, least, most);
  }
  Result<float> positive_or(std::string_view first, std::string_view second, float missing) const {
    return keys_.positive_or(named(first, second), missing);
  }

  Result<void> read_attention() {
    CAIRN_TRY(model_.heads, integer("attention.head_count", "num_attention_heads", 1, kHeadsMax));
    CAIRN_TRY(const int64_t kv_heads, integer_or("attention.head_count_kv", "num_key_value_heads", 1, 0, kHeadsMax));
    if (kv_heads != 1) {
      return refuse(keys_, named("attention.head_count_kv", "num_key_value_heads"), kv_heads,
                    "one row is key and value of all heads");
    }
    CAIRN_TRY(model_.head_dim, integer("attention.key_length", "head_dim", 1, kHeadDimMax));
    CAIRN_TRY(model_.rope_dims, integer("rope.dimension_count", "qk_rope_head_dim", 2, model_.head_dim));
    if (model_.rope_dims % 2 != 0) {
      return refuse(keys_, named("rope.dimension_count", "qk_rope_head_dim"), model_.rope_dims,
                    "rotated elements come in pairs");
    }
    CAIRN_TRY(model_.window, integer("attention.sliding_window", "sliding_window", 1, kWindowMax));
    CAIRN_TRY(model_.q_lora_rank, integer("attention.q_lora_rank", "q_lora_rank", 1, kRankMax));
    CAIRN_TRY(model_.output_rank, integer("attention.output_lora_rank", "o_lora_rank", 1, kRankMax));
    CAIRN_TRY(model_.output_groups, integer("attention.output_group_count", "o_groups", 1, model_.heads));
    if (model_.heads % model_.output_groups != 0) {
      return refuse(keys_, named("attention.output_group_count", "o_groups"), model_.output_groups,
                    fmt::format("it must divide the {} heads", model_.heads));
    }
    CAIRN_TRY(model_.index_heads, integer("attention.indexer.head_count", "index_n_heads", 1, kHeadsMax));
    CAIRN_TRY(model_.index_dim, integer("attention.indexer.key_length", "index_head_dim", 1, kHeadDimMax));
    CAIRN_TRY(model_.index_rows, integer("attention.indexer.top_k", "index_topk", 1, kContextMax));
    if (model_.index_dim < model_.rope_dims) {
      return refuse(keys_, named("attention.indexer.key_length", "index_head_dim"), model_.index_dim,
                    fmt::format("{} of its elements turn", model_.rope_dims));
    }
    return {};
  }

  Result<void> read_experts() {
    constexpr float kSumLeast = 1e-20F;
    model_.experts.route.score = RouteScore::kSqrtSoftplus;
    model_.experts.route.renormalise = true;
    model_.experts.route.sum_least = kSumLeast;
    model_.experts.needs_bias = true;
    CAIRN_TRY(model_.experts.route.experts, integer("expert_count", "n_routed_experts", 1, kExpertsMax));
    CAIRN_TRY(model_.experts.route.used, integer("expert_used_count", "num_experts_per_tok", 1,
                                                 std::min<int64_t>(model_.experts.route.experts, kExpertsUsedMax)));
    CAIRN_TRY(model_.experts.width, integer("expert_feed_forward_length", "moe_intermediate_size", 1, kFeedForwardMax));
    CAIRN_TRY(const int64_t shared, integer_or("expert_shared_count", "n_shared_experts", 1, 0, kExpertsUsedMax));
    model_.experts.shared_width = shared * model_.experts.width;
    CAIRN_TRY(model_.experts.route.scale, positive_or("expert_weights_scale", "routed_scaling_factor", 1.5F));
    CAIRN_TRY(const bool normalised, keys_.boolean_or(named("expert_weights_norm", "norm_topk_prob"), true));
    if (!normalised) {
      return refuse(keys_, named("expert_weights_norm", "norm_topk_prob"), normalised, "it must be true");
    }
    constexpr int64_t kSqrtSoftplus = 4;
    CAIRN_TRY(const int64_t gating, keys_.integer_or("expert_gating_func", kSqrtSoftplus, 0, 255));
    if (gating != kSqrtSoftplus) {
      return refuse(keys_, "expert_gating_func", gating, "4 (square root of softplus) was expected");
    }
    CAIRN_TRY(const std::string_view scoring, keys_.string_or("scoring_func", "sqrtsoftplus"));
    if (scoring != "sqrtsoftplus") return refuse(keys_, "scoring_func", scoring, "sqrtsoftplus was expected");
    CAIRN_TRY(const int64_t hashed, integer_or("hash_layer_count", "num_hash_layers", 0, 0, kLayersMax));
    if (hashed == 0) return {};
    return refuse(keys_, named("hash_layer_count", "num_hash_layers"), hashed,
                  "in V4.1 no layer's experts are chosen by the token");
  }

  Result<void> read_layers() {
    CAIRN_TRY(int64_t layers, integer("block_count", "num_hidden_layers", 1, kLayersMax));
    CAIRN_TRY(const int64_t predicting, keys_.integer_or("nextn_predict_layers", 0, 0, layers - 1));
    layers -= predicting;
    model_.layers.resize(layers);
    const std::string_view key = named("attention.compress_ratios", "compress_ratios");
    CAIRN_TRY(const std::vector<int64_t> ratios, keys_.file().metadata().integers(keys_.full(key)));
    if (std::cmp_less(ratios.size(), layers)) {
      return fail_at("key " + keys_.full(key), Code::kCorruptFile, "{} has {} entries, but there are {} layers",
                     keys_.full(key), ratios.size(), layers);
    }
    for (int64_t i = 0; i < layers; ++i) {
      if (ratios[i] >= 0 && ratios[i] <= 2) continue;
      return fail_at("key " + keys_.full(key), Code::kCorruptFile, "{} has {} for layer {}; 0, 1 and 2 are supported",
                     keys_.full(key), ratios[i], i);
    }
    CAIRN_TRY_VOID(share_rows(key, ratios));
    return read_clamps();
  }

  bool has(size_t layer, std::string_view name) const {
    return keys_.file().find_tensor(fmt::format("blk.{}.{}.weight", layer, name)) != nullptr;
  }

  Result<void> share_rows(std::string_view key, const std::vector<int64_t>& ratios) {
    int32_t latest = -1;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      LayerConfig& layer = model_.layers[i];
      layer.ratio = static_cast<int32_t>(ratios[i]);
      if (layer.ratio == 0) continue;
      layer.makes_rows = has(i, "attn_compressor_kv");
      if (layer.makes_rows) latest = static_cast<int32_t>(i);
      // Their first choice is made where they are.
      layer.indexed = layer.makes_rows || has(i, "indexer.attn_q_b");
      layer.rows_of = latest;
      if (latest >= 0 && model_.layers[latest].ratio == layer.ratio) continue;
      return fail_at("key " + keys_.full(key), Code::kCorruptFile,
                     "{} has {} for layer {}, but neither this layer nor the last one before it that makes compressed "
                     "rows (blk.N.attn_compressor_kv.weight) makes such rows",
                     keys_.full(key), layer.ratio, i);
    }
    return {};
  }

  /// One number for all layers, or one for each.
  Result<void> read_clamp(std::string_view key, float missing, float LayerConfig::* clamp) {
    std::vector<float> values(model_.layers.size(), missing);
    const gguf::Value* value = keys_.file().metadata().find(keys_.full(key));
    if (value != nullptr && value->type == gguf::ValueType::kArray) {
      CAIRN_TRY(values, keys_.file().metadata().floats(keys_.full(key)));
    } else if (value != nullptr) {
      CAIRN_TRY(const float all, keys_.number(key));
      std::ranges::fill(values, all);
    }
    if (values.size() < model_.layers.size()) {
      return refuse(keys_, key, fmt::format("{} numbers", values.size()),
                    fmt::format("there are {} layers", model_.layers.size()));
    }
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (!(values[i] > 0)) return refuse(keys_, key, values[i], "every layer's must be above zero");
      model_.layers[i].*clamp = values[i];
    }
    return {};
  }

  Result<void> read_clamps() {
    constexpr float kClamp = 10;
    const std::string_view routed = named("swiglu_clamp_exp", "swiglu_limit");
    CAIRN_TRY_VOID(read_clamp(routed, kClamp, &LayerConfig::clamp));
    return read_clamp(keys_.contains("swiglu_clamp_shexp") ? "swiglu_clamp_shexp" : routed, kClamp,
                      &LayerConfig::shared_clamp);
  }

  // Layers that choose among another's rows do so among the candidates that it has found.
  Result<void> read_candidates() {
    constexpr std::string_view kBlocks = "attention.indexer.candidate_blocks";
    constexpr std::string_view kRows = "attention.indexer.candidate_block_size";
    constexpr int32_t kBlocksOfModel = 2048, kRowsOfModel = 8, kRowsMax = 1024;
    CAIRN_TRY(model_.candidate_blocks, keys_.integer_or(kBlocks, kBlocksOfModel, 1, kContextMax));
    CAIRN_TRY(model_.candidate_rows, keys_.integer_or(kRows, kRowsOfModel, 1, kRowsMax));
    // One of the blocks may hold a single row.
    const int64_t least = (int64_t{model_.candidate_blocks} - 1) * model_.candidate_rows;
    if (least < model_.index_rows) {
      return refuse(keys_, kBlocks, model_.candidate_blocks,
                    fmt::format("so many blocks of {} rows may have less than the {} that are chosen",
                                model_.candidate_rows, model_.index_rows));
    }
    for (LayerConfig& layer : model_.layers) {
      if (!layer.indexed || layer.makes_rows) continue;
      layer.candidates = Candidates::kReads;
      model_.layers[layer.rows_of].candidates = Candidates::kFinds;
    }
    return {};
  }

  Result<void> read_ropes() {
    RopeParams params;
    params.dims = model_.rope_dims;
    CAIRN_TRY(params.base, positive_or("rope.freq_base", "rope_theta", 10'000));
    add_ropes(params, model_.ropes);
    CAIRN_TRY(params.base, positive_or("attention.compress_rope_freq_base", "compress_rope_theta", 160'000));
    CAIRN_TRY(params.factor, positive_or("rope.scaling.factor", "rope_scaling.factor", 1));
    CAIRN_TRY(params.original_context,
              integer_or("rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings",
                         model_.context_trained, 1, kContextMax));
    CAIRN_TRY(params.beta_fast, positive_or("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", 32));
    CAIRN_TRY(params.beta_slow, positive_or("rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", 1));
    params.scaling = params.factor == 1 ? RopeScaling::kNone : RopeScaling::kYarn;
    if (params.base == 1) {
      return refuse(keys_, named("attention.compress_rope_freq_base", "compress_rope_theta"), params.base,
                    "it gives every pair the same frequency");
    }
    add_ropes(params, model_.ropes);
    return {};
  }

  // A file with tables that no key is about would be computed without them.
  Result<void> check_engrams() const {
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (model_.layers[i].engram >= 0 || !has(i, "engram_embd")) continue;
      return fail_at("key " + keys_.full("engram.layer_ids"), Code::kCorruptFile,
                     "tensor blk.{}.engram_embd.weight is there, but {} does not name layer {}", i,
                     keys_.full("engram.layer_ids"), i);
    }
    return {};
  }

  static constexpr int64_t kStreamRoundsMax = 100;
  static constexpr int64_t kWindowMax = 1 << 16;
  static constexpr int64_t kRankMax = 1 << 16;

  const MetadataReader& keys_;
  ModelConfig& model_;
};

}  // namespace

bool is_v41(const gguf::Reader& file) {
  const auto name = file.metadata().string("general.architecture");
  if (!name.has_value()) return false;
  return *name == kArchitecture41 ||
         (*name == kArchitecture && file.metadata().contains(fmt::format("{}.engram.layer_ids", kArchitecture)));
}

Result<ModelConfig> describe_v41(const gguf::Reader& file, int32_t context_tokens) {
  CAIRN_TRY(const std::string_view name, file.metadata().string("general.architecture"));
  const MetadataReader keys(file, name);
  ModelConfig model;
  CAIRN_TRY_VOID(Config41Reader(keys, model).read(context_tokens));
  return model;
}

}  // namespace cairn::deepseek4
