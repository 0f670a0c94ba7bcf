#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/hyper_connection_operations.h"
#include "model/arch/table.h"
#include "model/metadata_reader.h"

// DeepSeek V4 and V4.1. Keys of V4 are those of its reference engine (antirez/ds4) and of llama.cpp. Two kinds of files
// of V4.1 name the same numbers differently: llama.cpp's as those of V4, antirez/ds4's as the model's config.json does.
namespace cairn::model {
namespace {

constexpr std::string_view kArchitecture = "deepseek4", kArchitecture41 = "deepseek41";
/// Positions per compressed row of V4's layers that choose among such rows; those with other ratios see them all.
constexpr int32_t kIndexedRatio = 4;
constexpr int64_t kStreamRoundsMax = 100;
constexpr int64_t kWindowMax = 1 << 16;
constexpr int64_t kRankMax = 1 << 16;

/// Files of V4.1 may have V4's architecture.
bool is_v41(const gguf::Reader& file, std::string_view architecture) {
  return architecture == kArchitecture41 || file.metadata().contains(fmt::format("{}.engram.layer_ids", kArchitecture));
}

class ConfigReader {
 public:
  explicit ConfigReader(const MetadataReader& keys) : keys_(keys) {
    attention_.is_v41 = is_v41(keys.file(), keys.architecture());
  }

  Result<DecoderConfig> read(int32_t context_tokens) {
    CAIRN_TRY(model_.embedding, integer("embedding_length", "hidden_size", 1, kEmbeddingMax));
    CAIRN_TRY(model_.pooling, read_pooling(keys_.file(), Pooling::kLast));
    const float epsilon = attention_.is_v41 ? 1e-20F : 1e-6F;
    CAIRN_TRY(model_.norm.epsilon, positive_or("attention.layer_norm_rms_epsilon", "rms_norm_eps", epsilon));
    CAIRN_TRY(model_.context_trained, integer("context_length", "max_position_embeddings", 1, kContextMax));
    CAIRN_TRY(model_.context_tokens, context_of_run(model_.context_trained, context_tokens));
    CAIRN_TRY(model_.vocabulary, read_vocabulary(keys_));
    CAIRN_TRY_VOID(read_hyper_connections());
    CAIRN_TRY_VOID(read_attention());
    CAIRN_TRY_VOID(read_index());
    CAIRN_TRY_VOID(read_experts());
    CAIRN_TRY_VOID(read_layers());
    CAIRN_TRY_VOID(read_ropes());
    if (attention_.is_v41) CAIRN_TRY_VOID(read_engrams());
    attention_.embedding = model_.embedding;
    attention_.context_tokens = model_.context_tokens;
    attention_.norm = model_.norm;
    if (!attention_.is_v41) model_.mtp_layer = model_.window_layer();
    model_.compressed = std::move(attention_);
    return std::move(model_);
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
  Result<void> refuse(std::string_view key, auto value, std::string_view wanted) const {
    return fail_at("key " + keys_.full(key), Code::kCorruptFile, "{} is {}, but {}", keys_.full(key), value, wanted);
  }
  /// A number for every layer; more are those of blocks behind the last.
  Result<void> check_count(std::string_view key, size_t count) const {
    if (count >= model_.layers.size()) return {};
    return fail_at("key " + keys_.full(key), Code::kCorruptFile, "{} has {} entries, but there are {} layers",
                   keys_.full(key), count, model_.layers.size());
  }
  bool has(size_t layer, std::string_view name) const {
    return keys_.file().find_tensor(fmt::format("blk.{}.{}.weight", layer, name)) != nullptr;
  }

  Result<void> read_hyper_connections() {
    HyperConnectionConfig streams{
        .embedding = model_.embedding, .norm_epsilon = model_.norm.epsilon, .carried = attention_.is_v41};
    CAIRN_TRY(streams.streams, integer("hyper_connection.count", "hc_mult", 1, kernels::kStreamsMax));
    CAIRN_TRY(streams.rounds,
              integer("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", 1, kStreamRoundsMax));
    CAIRN_TRY(streams.epsilon, positive_or("hyper_connection.epsilon", "hc_eps", 1e-6F));
    model_.residual.hyper_connections = streams;
    return {};
  }

  Result<void> read_attention() {
    CompressedAttentionConfig& attention = attention_;
    CAIRN_TRY(attention.heads, integer("attention.head_count", "num_attention_heads", 1, kHeadsMax));
    CAIRN_TRY(const int64_t kv_heads, integer_or("attention.head_count_kv", "num_key_value_heads", 1, 0, kHeadsMax));
    if (kv_heads != 1) {
      return refuse(named("attention.head_count_kv", "num_key_value_heads"), kv_heads,
                    "one row is key and value of all heads");
    }
    CAIRN_TRY(attention.head_dim, integer("attention.key_length", "head_dim", 1, kHeadDimMax));
    CAIRN_TRY(const int64_t value_dim, keys_.integer_or("attention.value_length", attention.head_dim, 1, kHeadDimMax));
    if (value_dim != attention.head_dim) {
      return refuse("attention.value_length", value_dim,
                    fmt::format("values are the keys, which have {}", attention.head_dim));
    }
    CAIRN_TRY(attention.rope_dims, integer("rope.dimension_count", "qk_rope_head_dim", 2, attention.head_dim));
    if (attention.rope_dims % 2 != 0) {
      return refuse(named("rope.dimension_count", "qk_rope_head_dim"), attention.rope_dims,
                    "rotated elements come in pairs");
    }
    CAIRN_TRY(attention.window, integer("attention.sliding_window", "sliding_window", 1, kWindowMax));
    CAIRN_TRY(attention.q_lora_rank, integer("attention.q_lora_rank", "q_lora_rank", 1, kRankMax));
    CAIRN_TRY(attention.output_rank, integer("attention.output_lora_rank", "o_lora_rank", 1, kRankMax));
    CAIRN_TRY(attention.output_groups, integer("attention.output_group_count", "o_groups", 1, attention.heads));
    if (attention.heads % attention.output_groups == 0) return {};
    return refuse(named("attention.output_group_count", "o_groups"), attention.output_groups,
                  fmt::format("it must divide the {} heads", attention.heads));
  }

  Result<void> read_index() {
    CompressedAttentionConfig& attention = attention_;
    CAIRN_TRY(attention.index_heads, integer("attention.indexer.head_count", "index_n_heads", 1, kHeadsMax));
    CAIRN_TRY(attention.index_dim, integer("attention.indexer.key_length", "index_head_dim", 1, kHeadDimMax));
    CAIRN_TRY(attention.index_rows, integer("attention.indexer.top_k", "index_topk", 1, kContextMax));
    const std::string_view key = named("attention.indexer.key_length", "index_head_dim");
    if (attention.index_dim < attention.rope_dims) {
      return refuse(key, attention.index_dim, fmt::format("{} of its elements turn", attention.rope_dims));
    }
    const bool turned_by_hadamard = !attention.is_v41;
    if (!turned_by_hadamard || (attention.index_dim & (attention.index_dim - 1)) == 0) return {};
    return refuse(key, attention.index_dim, "it must be a power of two");
  }

  Result<void> read_experts() {
    MoeConfig experts;
    kernels::RouteParams& route = experts.route;
    route.score = kernels::RouteScore::kSqrtSoftplus;
    route.renormalise = true;
    route.sum_least = attention_.is_v41 ? 1e-20F : 0x1p-14F;
    experts.needs_bias = attention_.is_v41;
    CAIRN_TRY(route.experts, integer("expert_count", "n_routed_experts", 1, kExpertsMax));
    CAIRN_TRY(route.used, integer("expert_used_count", "num_experts_per_tok", 1,
                                  std::min<int64_t>(route.experts, kExpertsUsedMax)));
    CAIRN_TRY(experts.width, integer("expert_feed_forward_length", "moe_intermediate_size", 1, kFeedForwardMax));
    CAIRN_TRY(const int64_t shared, integer_or("expert_shared_count", "n_shared_experts", 1, 0, kExpertsUsedMax));
    experts.shared_width = shared * experts.width;
    const float scale = attention_.is_v41 ? 1.5F : 1;
    CAIRN_TRY(route.scale, positive_or("expert_weights_scale", "routed_scaling_factor", scale));
    CAIRN_TRY(const bool normalised, keys_.boolean_or(named("expert_weights_norm", "norm_topk_prob"), true));
    if (!normalised) return refuse(named("expert_weights_norm", "norm_topk_prob"), normalised, "it must be true");
    constexpr int64_t kSqrtSoftplus = 4;
    CAIRN_TRY(const int64_t gating, keys_.integer_or("expert_gating_func", kSqrtSoftplus, 0, 255));
    if (gating != kSqrtSoftplus) {
      return refuse("expert_gating_func", gating, "4 (square root of softplus) was expected");
    }
    CAIRN_TRY(const std::string_view scoring, keys_.string_or("scoring_func", "sqrtsoftplus"));
    if (scoring != "sqrtsoftplus") return refuse("scoring_func", scoring, "sqrtsoftplus was expected");
    CAIRN_TRY(const int64_t groups, keys_.integer_or("expert_group_count", 0, 0, kExpertsMax));
    if (groups > 1) return refuse("expert_group_count", groups, "groups of experts are not part of this architecture");
    model_.experts = experts;
    return {};
  }

  Result<void> read_layers() {
    CAIRN_TRY(int64_t layers, integer("block_count", "num_hidden_layers", 1, kLayersMax));
    // Blocks behind the last predict further tokens.
    CAIRN_TRY(model_.mtp_layers, keys_.integer_or("nextn_predict_layers", 0, 0, layers - 1));
    layers -= model_.mtp_layers;
    model_.layers.resize(layers);
    for (LayerConfig& layer : model_.layers) {
      layer.mixer = Mixer::kCompressedAttention;
      layer.rope = kNoRope;
      layer.routed = true;
    }
    CAIRN_TRY(const int64_t hashed, integer_or("hash_layer_count", "num_hash_layers", 0, 0, layers));
    if (attention_.is_v41 && hashed > 0) {
      return refuse(named("hash_layer_count", "num_hash_layers"), hashed,
                    "in V4.1 no layer's experts are chosen by the token");
    }
    for (int64_t i = 0; i < hashed; ++i) model_.layers[i].hashed_experts = true;
    CAIRN_TRY_VOID(read_ratios());
    constexpr float kClampOfV41 = 10;
    const std::optional<float> missing = attention_.is_v41 ? std::optional(kClampOfV41) : std::nullopt;
    const std::string_view routed = named("swiglu_clamp_exp", "swiglu_limit");
    CAIRN_TRY_VOID(read_clamps(routed, missing, &LayerConfig::clamp));
    return read_clamps(keys_.contains("swiglu_clamp_shexp") ? "swiglu_clamp_shexp" : routed, missing,
                       &LayerConfig::shared_clamp);
  }

  Result<void> read_ratios() {
    const std::string_view key = named("attention.compress_ratios", "compress_ratios");
    CAIRN_TRY(const std::vector<int64_t> ratios, keys_.file().metadata().integers(keys_.full(key)));
    CAIRN_TRY_VOID(check_count(key, ratios.size()));
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      const int64_t ratio = ratios[i];
      if (attention_.is_v41 ? ratio >= 0 && ratio <= 2 : is_ratio_of_v4(ratio)) continue;
      const std::string supported = attention_.is_v41
                                        ? "0, 1 and 2"
                                        : fmt::format("0, {} and multiples or divisors of {} up to {}", kIndexedRatio,
                                                      kernels::kPageTokens, kernels::kCompressorSpanMax / 2);
      return fail_at("key " + keys_.full(key), Code::kCorruptFile, "{} has {} for layer {}; {} are supported",
                     keys_.full(key), ratio, i, supported);
    }
    if (!attention_.is_v41) {
      for (size_t i = 0; i < model_.layers.size(); ++i) set_own_rows(static_cast<int32_t>(i), ratios[i]);
      return {};
    }
    CAIRN_TRY_VOID(share_rows(key, ratios));
    return read_candidates();
  }

  static bool is_ratio_of_v4(int64_t ratio) {
    return ratio == 0 || (ratio > 1 && ratio <= kernels::kCompressorSpanMax / 2 &&
                          (kernels::kPageTokens % ratio == 0 || ratio % kernels::kPageTokens == 0));
  }

  /// V4: each layer makes the compressed rows that it sees.
  void set_own_rows(int32_t layer, int64_t ratio) {
    model_.layers[layer].compressed = {.ratio = static_cast<int32_t>(ratio),
                                       .indexed = ratio == kIndexedRatio,
                                       .makes_rows = ratio > 0,
                                       .rows_of = ratio > 0 ? layer : -1};
  }

  /// V4.1: which layers make compressed rows, and which choose, is told by their tensors.
  Result<void> share_rows(std::string_view key, const std::vector<int64_t>& ratios) {
    int32_t latest = -1;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      CompressedLayerConfig& layer = model_.layers[i].compressed;
      layer.ratio = static_cast<int32_t>(ratios[i]);
      if (layer.ratio == 0) continue;
      layer.makes_rows = has(i, "attn_compressor_kv");
      if (layer.makes_rows) latest = static_cast<int32_t>(i);
      // Their first choice is made where they are.
      layer.indexed = layer.makes_rows || has(i, "indexer.attn_q_b");
      layer.rows_of = latest;
      if (latest >= 0 && model_.layers[latest].compressed.ratio == layer.ratio) continue;
      return fail_at("key " + keys_.full(key), Code::kCorruptFile,
                     "{} has {} for layer {}, but neither this layer nor the last one before it that makes compressed "
                     "rows (blk.N.attn_compressor_kv.weight) makes such rows",
                     keys_.full(key), layer.ratio, i);
    }
    return {};
  }

  // Layers that choose among another's rows do so among the candidates that it has found.
  Result<void> read_candidates() {
    constexpr std::string_view kBlocks = "attention.indexer.candidate_blocks";
    constexpr std::string_view kRows = "attention.indexer.candidate_block_size";
    constexpr int32_t kBlocksOfModel = 2048, kRowsOfModel = 8, kRowsMax = 1024;
    CAIRN_TRY(attention_.candidate_blocks, keys_.integer_or(kBlocks, kBlocksOfModel, 1, kContextMax));
    CAIRN_TRY(attention_.candidate_rows, keys_.integer_or(kRows, kRowsOfModel, 1, kRowsMax));
    // One of the blocks may hold a single row.
    const int64_t least = (int64_t{attention_.candidate_blocks} - 1) * attention_.candidate_rows;
    if (least < attention_.index_rows) {
      return refuse(kBlocks, attention_.candidate_blocks,
                    fmt::format("so many blocks of {} rows may have less than the {} that are chosen",
                                attention_.candidate_rows, attention_.index_rows));
    }
    for (LayerConfig& layer : model_.layers) {
      if (!layer.compressed.indexed || layer.compressed.makes_rows) continue;
      layer.compressed.candidates = Candidates::kReads;
      model_.layers[layer.compressed.rows_of].compressed.candidates = Candidates::kFinds;
    }
    return {};
  }

  /// One number for all layers, or one for each. nullopt: the key must be there.
  Result<void> read_clamps(std::string_view key, std::optional<float> missing,
                           std::optional<float> LayerConfig::* clamp) {
    std::vector<float> values(model_.layers.size(), missing.value_or(0));
    const gguf::Value* value = keys_.file().metadata().find(keys_.full(key));
    if (value != nullptr && value->type != gguf::ValueType::kArray) {
      CAIRN_TRY(const float all, keys_.number(key));
      std::ranges::fill(values, all);
    } else if (value != nullptr || !missing) {
      CAIRN_TRY(values, keys_.file().metadata().floats(keys_.full(key)));
    }
    CAIRN_TRY_VOID(check_count(key, values.size()));
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (!(values[i] > 0)) return refuse(key, values[i], "every layer's must be above zero");
      model_.layers[i].*clamp = values[i];
    }
    return {};
  }

  Result<void> read_ropes() {
    RopeParams params;
    params.dims = attention_.rope_dims;
    CAIRN_TRY(params.base, positive_or("rope.freq_base", "rope_theta", 10'000));
    add_compressed_ropes(params, attention_);
    const std::string_view base = named("attention.compress_rope_freq_base", "compress_rope_theta");
    CAIRN_TRY(params.base, keys_.positive_or(base, 160'000));
    CAIRN_TRY(params.factor, positive_or("rope.scaling.factor", "rope_scaling.factor", 1));
    CAIRN_TRY(params.original_context,
              integer_or("rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings",
                         model_.context_trained, 1, kContextMax));
    CAIRN_TRY(params.beta_fast, positive_or("rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", 32));
    CAIRN_TRY(params.beta_slow, positive_or("rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", 1));
    // YaRN's attention factor is 1 in this architecture: rotation keeps the vectors' lengths.
    params.scaling = params.factor == 1 ? RopeScaling::kNone : RopeScaling::kYarn;
    if (params.base == 1) return refuse(base, params.base, "it gives every pair the same frequency");
    add_compressed_ropes(params, attention_);
    return {};
  }

  Result<void> read_engrams() {
    CAIRN_TRY(model_.engram, read_engram(keys_, model_.vocabulary, std::ssize(model_.layers)));
    model_.engram.streams = model_.residual.streams();
    model_.engram.embedding = model_.embedding;
    model_.engram.norm_epsilon = model_.norm.epsilon;
    for (size_t i = 0; i < model_.engram.layers.size(); ++i) {
      model_.layers[model_.engram.layers[i]].engram = static_cast<int32_t>(i);
    }
    // A file with tables that no key is about would be computed without them.
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      if (model_.layers[i].engram >= 0 || !has(i, "engram_embd")) continue;
      return fail_at("key " + keys_.full("engram.layer_ids"), Code::kCorruptFile,
                     "tensor blk.{}.engram_embd.weight is there, but {} does not name layer {}", i,
                     keys_.full("engram.layer_ids"), i);
    }
    return {};
  }

  const MetadataReader& keys_;
  DecoderConfig model_;
  CompressedAttentionConfig attention_;
};

}  // namespace

Result<DecoderConfig> read_deepseek4_config(const gguf::Reader& file, int32_t context_tokens) {
  CAIRN_TRY(const std::string_view architecture, file.metadata().string("general.architecture"));
  const MetadataReader keys(file, architecture);
  return ConfigReader(keys).read(context_tokens);
}

}  // namespace cairn::model
