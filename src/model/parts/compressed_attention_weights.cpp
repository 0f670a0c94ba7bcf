#include <fmt/format.h>

#include "model/parts/compressed_attention.h"
#include "model/weights/weight_loader.h"

// The tensors of attention over compressed rows.
namespace cairn {

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

  Result<std::unique_ptr<CompressorWeights>> compressor(std::string_view name, const CompressorParams& params) {
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

}  // namespace cairn
