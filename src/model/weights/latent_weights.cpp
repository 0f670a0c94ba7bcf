#include "model/weights/latent_weights.h"

#include <algorithm>
#include <vector>

namespace cairn {

namespace {

// Rows of a head in attn_kv_b [heads * (nope + value_dim), rank]: those that make its keys, then those of its values.
Result<void> load_joint(Binder& binder, const std::string& name, const DecoderDescription& description,
                        LatentWeights& weights) {
  const LatentDescription& latent = *description.latent;
  const int64_t heads = description.heads, nope = latent.nope, rank = latent.rank, dim = description.value_dim;
  CAIRN_TRY(const std::vector<float> joint, binder.values(name, heads * (nope + dim), rank));
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
  CAIRN_TRY(weights.key, binder.made(heads, rank, nope, fill_key));
  CAIRN_TRY(weights.value, binder.made(heads, dim, rank, fill_value));
  return {};
}

Result<void> load_indexer(Binder& binder, const std::string& prefix, const DecoderDescription& description,
                          IndexerWeights& weights) {
  const IndexerDescription& indexer = *description.latent->indexer;
  const int64_t width = description.embedding;
  CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q_b", int64_t{indexer.heads} * indexer.key_dim,
                                         description.latent->query_rank));
  CAIRN_TRY(weights.key, binder.linear(prefix + "attn_k", indexer.key_dim, width));
  CAIRN_TRY(weights.key_norm, binder.vector(prefix + "k_norm.weight", indexer.key_dim));
  CAIRN_TRY(weights.key_norm_bias, binder.vector(prefix + "k_norm.bias", indexer.key_dim));
  CAIRN_TRY(weights.shares, binder.linear(prefix + "proj", indexer.heads, width));
  return {};
}

}  // namespace

Result<LatentWeights> load_latent_weights(Binder& binder, const std::string& prefix,
                                          const DecoderDescription& description) {
  const LatentDescription& latent = *description.latent;
  const int64_t width = description.embedding;
  const int64_t query = int64_t{description.heads} * latent.query_dim();
  LatentWeights weights;
  if (latent.query_rank > 0) {
    CAIRN_TRY(weights.query_low, binder.linear(prefix + "attn_q_a", latent.query_rank, width));
    CAIRN_TRY(weights.query_norm, binder.vector(prefix + "attn_q_a_norm.weight", latent.query_rank));
    CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q_b", query, latent.query_rank));
  } else {
    CAIRN_TRY(weights.query, binder.linear(prefix + "attn_q", query, width));
  }
  CAIRN_TRY(weights.row, binder.linear(prefix + "attn_kv_a_mqa", latent.row_dim(), width));
  CAIRN_TRY(weights.row_norm, binder.vector(prefix + "attn_kv_a_norm.weight", latent.rank));
  const std::string joint = prefix + "attn_kv_b";
  if (binder.has(joint + ".weight") && !binder.has(prefix + "attn_k_b.weight")) {
    CAIRN_TRY_VOID(load_joint(binder, joint, description, weights));
  } else {
    CAIRN_TRY(weights.key, binder.experts(prefix + "attn_k_b", description.heads, latent.rank, latent.nope));
    CAIRN_TRY(weights.value,
              binder.experts(prefix + "attn_v_b", description.heads, description.value_dim, latent.rank));
  }
  if (latent.indexer) {
    CAIRN_TRY_VOID(load_indexer(binder, prefix + "indexer.", description, weights.indexer));
  }
  return weights;
}

}  // namespace cairn
