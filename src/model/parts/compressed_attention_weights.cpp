#include <fmt/format.h>

#include <utility>

#include "model/parts/compressed_attention.h"
#include "model/weights/weight_loader.h"

// The tensors of attention over compressed rows.
namespace cairn::model {

namespace {

/// Loads the tensors of one layer.
class CompressedAttentionLoader {
 public:
  CompressedAttentionLoader(WeightLoader& loader, const std::string& prefix, const CompressedAttentionConfig& config,
                            const CompressedLayerConfig& layer)
      : loader_(loader), prefix_(prefix), config_(config), layer_(layer) {}

  Result<CompressedAttentionWeights> load() {
    CompressedAttentionWeights weights;
    CAIRN_TRY_VOID(load_heads(weights));
    if (config_.is_v41) {
      CAIRN_TRY_VOID(load_shared_rows(weights));
      return weights;
    }
    if (layer_.ratio > 0) {
      CAIRN_TRY(weights.compressor, compressor("attn_compressor", config_.compressor(layer_)));
    }
    if (layer_.indexed) {
      CAIRN_TRY(weights.index_compressor, compressor("indexer_compressor", config_.index_compressor(layer_)));
      CAIRN_TRY_VOID(load_index_query(weights));
    }
    return weights;
  }

 private:
  Result<Linear> linear(std::string_view name, int64_t rows, int64_t cols) {
    return loader_.linear(fmt::format("{}{}", prefix_, name), rows, cols);
  }
  Result<Norm> norm(std::string_view name, int64_t width) {
    return Norm::load(loader_, fmt::format("{}{}", prefix_, name), width, config_.norm);
  }

  Result<void> load_heads(CompressedAttentionWeights& weights) {
    const int64_t width = config_.embedding;
    const int64_t outer = config_.outer_dim(), groups = config_.output_groups;
    CAIRN_TRY(weights.query_down, linear("attn_q_a", config_.q_lora_rank, width));
    CAIRN_TRY(weights.query_norm, norm("attn_q_a_norm", config_.q_lora_rank));
    CAIRN_TRY(weights.query_up, linear("attn_q_b", outer, config_.q_lora_rank));
    CAIRN_TRY(weights.key_value, linear("attn_kv", config_.head_dim, width));
    CAIRN_TRY(weights.key_value_norm, norm("attn_kv_a_norm", config_.head_dim));
    CAIRN_TRY(weights.sinks, loader_.vector(prefix_ + "attn_sinks.weight", config_.heads));
    CAIRN_TRY(weights.output_groups,
              loader_.stacked(prefix_ + "attn_output_a", groups, config_.output_rank, outer / groups));
    CAIRN_TRY(weights.output, linear("attn_output_b", width, groups * config_.output_rank));
    return {};
  }

  Result<void> load_index_query(CompressedAttentionWeights& weights) {
    CAIRN_TRY(weights.index_query,
              linear("indexer.attn_q_b", int64_t{config_.index_heads} * config_.index_dim, config_.q_lora_rank));
    CAIRN_TRY(weights.index_weights, linear("indexer.proj", config_.index_heads, config_.embedding));
    return {};
  }

  // A row of one position is its projection: nothing is weighted.
  Result<void> load_shared_rows(CompressedAttentionWeights& weights) {
    if (layer_.indexed) CAIRN_TRY_VOID(load_index_query(weights));
    if (!layer_.makes_rows) return {};
    weights.compressor = std::make_unique<CompressorWeights>();
    weights.index_compressor = std::make_unique<CompressorWeights>();
    CompressorWeights& rows = *weights.compressor;
    CAIRN_TRY(rows.values, linear("attn_compressor_kv", config_.head_dim, config_.embedding));
    if (layer_.ratio > 1) {
      CAIRN_TRY(rows.scores, linear("attn_compressor_gate", config_.head_dim, config_.embedding));
    }
    CAIRN_TRY(rows.norm, norm("attn_compressor_norm", config_.head_dim));
    CAIRN_TRY(weights.index_compressor->values, linear("indexer.attn_k", config_.index_dim, config_.head_dim));
    CAIRN_TRY(weights.index_compressor->norm, norm("indexer.k_norm", config_.index_dim));
    return {};
  }

  Result<std::unique_ptr<CompressorWeights>> compressor(std::string_view name,
                                                        const kernels::CompressorParams& params) {
    auto weights = std::make_unique<CompressorWeights>();
    CAIRN_TRY(weights->values, linear(fmt::format("{}_kv", name), params.width(), config_.embedding));
    CAIRN_TRY(weights->scores, linear(fmt::format("{}_gate", name), params.width(), config_.embedding));
    CAIRN_TRY(weights->biases,
              loader_.table(fmt::format("{}{}_ape.weight", prefix_, name), params.ratio, params.width()));
    CAIRN_TRY(weights->norm, norm(fmt::format("{}_norm", name), params.dim));
    return weights;
  }

  WeightLoader& loader_;
  const std::string& prefix_;
  const CompressedAttentionConfig& config_;
  const CompressedLayerConfig& layer_;
};

}  // namespace

Result<CompressedAttentionWeights> CompressedAttentionWeights::load(WeightLoader& loader, const std::string& prefix,
                                                                    const CompressedAttentionConfig& config,
                                                                    const CompressedLayerConfig& layer) {
  return CompressedAttentionLoader(loader, prefix, config, layer).load();
}

CompressedPlaces add_compressed_kv(const CompressedAttentionConfig& config, const CompressedLayerConfig& layer,
                                   int32_t window, int32_t device, std::span<const CompressedPlaces> before,
                                   cache::KvLayout& layout) {
  const auto add = [&](cache::KvKind kind, int32_t kept, const cache::KvLayer& kv) {
    return add_kv_layer(kind, kept, device, kv, layout);
  };
  const auto add_inputs = [&](const kernels::CompressorParams& compressor) {
    return add(cache::KvKind::kWindow, compressor.span(),
               {.kv_heads = 1, .key_dim = compressor.width(), .type = kernels::KvType::kF32});
  };
  CompressedPlaces places;
  places.window = add(cache::KvKind::kWindow, window, {.kv_heads = 1, .key_dim = config.head_dim});
  if (layer.ratio == 0) return places;
  if (!layer.makes_rows) {
    places.compressed = before[layer.rows_of].compressed;
    places.index = before[layer.rows_of].index;
    return places;
  }
  places.compressed =
      add(cache::KvKind::kFull, 0, {.kv_heads = 1, .key_dim = config.head_dim, .tokens_per_row = layer.ratio});
  // A row of one position is made from it alone.
  if (layer.ratio > 1) {
    places.values = add_inputs(config.compressor(layer));
    places.scores = add_inputs(config.compressor(layer));
  }
  if (!layer.indexed) return places;
  places.index =
      add(cache::KvKind::kFull, 0, {.kv_heads = 1, .key_dim = config.index_dim, .tokens_per_row = layer.ratio});
  if (config.is_v41) return places;
  places.index_values = add_inputs(config.index_compressor(layer));
  places.index_scores = add_inputs(config.index_compressor(layer));
  return places;
}

void add_compressed_ropes(const RopeParams& params, CompressedAttentionConfig& config) {
  RopeConfig& there =
      config.ropes.emplace_back(kernels::RopeStyle::kInterleaved, params.dims, rope_frequencies(params, {}));
  RopeConfig back = there;
  for (double& frequency : back.frequencies) frequency = -frequency;
  config.ropes.push_back(std::move(back));
}

}  // namespace cairn::model
