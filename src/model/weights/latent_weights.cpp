#include "model/weights/latent_weights.h"

#include <algorithm>
#include <vector>

namespace cairn {

namespace {

// Rows of a head in attn_kv_b [heads * (nope + value_dim), rank]: those that make its keys, then those of its values.
Result<void> load_joint(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                        LatentWeights& weights) {
  const MlaConfig& latent = *config.latent;
  const int64_t heads = config.heads, nope = latent.nope, rank = latent.rank, dim = config.value_dim;
  CAIRN_TRY(const std::vector<float> joint, binder.values(prefix + "attn_kv_b", heads * (nope + dim), rank));
  const auto head = [&](int64_t h) { return joint.data() + h * (nope + dim) * rank; };
  const auto fill_key = [&](std::span<float> key) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t j = 0; j < nope; ++j) key[(h * rank + r) * nope + j] = head(h)[j * rank + r];
      }
    }
  };
  const auto fill_value = [&](std::span<float> value) {
    for (int64_t h = 0; h < heads; ++h) std::copy_n(head(h) + nope * rank, dim * rank, &value[h * dim * rank]);
  };
  CAIRN_TRY(weights.key, binder.made_heads(prefix + "attn_k_b", heads, rank, nope, fill_key));
  CAIRN_TRY(weights.value, binder.made_heads(prefix + "attn_v_b", heads, dim, rank, fill_value));
  return {};
}

Result<void> load_indexer(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                          IndexerWeights& weights) {
  const IndexerConfig& indexer = *config.latent->indexer;
  const int64_t width = config.embedding;
  CAIRN_TRY(weights.query,
            binder.linear(prefix + "attn_q_b", int64_t{indexer.heads} * indexer.key_dim, config.latent->q_lora_rank));
  CAIRN_TRY(weights.key, binder.linear(prefix + "attn_k", indexer.key_dim, width));
  const NormConfig norm{.kind = NormKind::kLayerNorm, .epsilon = indexer.norm_epsilon, .biases = true};
  CAIRN_TRY(weights.key_norm, Norm::load(binder, prefix + "k_norm", indexer.key_dim, norm));
  CAIRN_TRY(weights.shares, binder.linear(prefix + "proj", indexer.heads, width));
  return {};
}

}  // namespace

Result<LatentWeights> load_latent_weights(WeightLoader& binder, const std::string& prefix, const LayerConfig& layer,
                                          const DecoderConfig& config) {
  const MlaConfig& latent = *config.latent;
  const int64_t width = config.embedding;
  const int64_t query = int64_t{config.heads} * latent.query_dim();
  const NormConfig norm{.epsilon = config.norm.epsilon};
  LatentWeights weights;
  if (latent.q_lora_rank > 0) {
    CAIRN_TRY(weights.query_low, binder.linear(prefix + "attn_q_a", latent.q_lora_rank, width));
    CAIRN_TRY(weights.query_norm, Norm::load(binder, prefix + "attn_q_a_norm", latent.q_lora_rank, norm));
    CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q_b", query, latent.q_lora_rank));
  } else {
    CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q", query, width));
  }
  CAIRN_TRY(weights.row, binder.linear(prefix + "attn_kv_a_mqa", latent.row_dim(), width));
  CAIRN_TRY(weights.row_norm, Norm::load(binder, prefix + "attn_kv_a_norm", latent.rank, norm));
  const std::string joint = prefix + "attn_kv_b";
  if (binder.has(joint + ".weight") && !binder.has(prefix + "attn_k_b.weight")) {
    CAIRN_TRY_VOID(load_joint(binder, prefix, config, weights));
  } else {
    CAIRN_TRY(weights.key, binder.heads(prefix + "attn_k_b", config.heads, latent.rank, latent.nope));
    CAIRN_TRY(weights.value, binder.heads(prefix + "attn_v_b", config.heads, config.value_dim, latent.rank));
  }
  const JointShape shape{.heads = config.heads, .keys = latent.nope, .values = config.value_dim, .cols = latent.rank};
  CAIRN_TRY_VOID(binder.add_joint_adapters(joint, shape, weights.key, weights.value));
  if (latent.indexer && layer.indexer) {
    CAIRN_TRY_VOID(load_indexer(binder, prefix + "indexer.", config, weights.indexer));
  }
  CAIRN_TRY(weights.output, binder.linear(prefix + "attn_output", width, int64_t{config.heads} * config.value_dim));
  return weights;
}

}  // namespace cairn
