#include "base/check.h"
#include "kernels/latent_operations.h"
#include "model/decoder/decoder.h"

// The MTP module of Decoder. At position p it reads the token there and the normalised row that the model, or the
// module itself in a draft before, has left at p - 1; so what a step has computed is all that drafts need.
namespace cairn {

Result<LogitsView> Decoder::mtp_step(const Batch& batch) {
  CAIRN_CHECK(has_mtp());
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.rows == 1 && slice.logits == LogitsWanted::kLast);
  plan(batch);
  backend_.begin_step();
  compute_ropes();
  begin_drafts(batch);
  const size_t layer = description_.layers.size();
  mix(layer, *batch.pool);
  feed_forward(layer);
  const MtpWeights& weights = weights_.mtp;
  norm_hidden(weights.output_norm.weight.data() != nullptr ? weights.output_norm : weights_.output_norm, hidden_);
  keep_rows(*batch.pool, hidden_);
  return head(weights.output.weight.rows > 0 ? weights.output : weights_.output);
}

Result<LogitsView> Decoder::logits_of_kept_rows(const PagePool& pool) {
  const int64_t width = description_.embedding;
  float* rows = activations_.normed;
  norm_hidden(weights_.output_norm, rows);
  keep_rows(pool, rows);
  // Those of logits first.
  const auto logits = static_cast<int64_t>(batch_.logit_rows().size());
  hidden_ = activations_.last;
  if (logits > 0) backend_.gather_rows(rows, batch_.logit_rows(), width, hidden_);
  if (!batch_.hidden_rows().empty()) {
    backend_.gather_rows(rows, batch_.hidden_rows(), width, hidden_ + logits * width);
  }
  return head(weights_.output);
}

void Decoder::keep_rows(const PagePool& pool, const float* rows) {
  const KvPlace place = kv_.mtp_rows;
  backend_.latent()->store_rows(pool.view(place.group, place.layer), batch_.slices(place.group), rows);
}

void Decoder::begin_drafts(const Batch& batch) {
  const MtpWeights& weights = weights_.mtp;
  const int64_t width = description_.embedding;
  const float epsilon = description_.norm_epsilon;
  float* tokens = activations_.normed;
  float* before = activations_.block;
  residual_pending_ = false;
  hidden_ = activations_.hidden;
  backend_.embed(weights.embedding.rows > 0 ? weights.embedding : weights_.embedding, batch.tokens,
                 description_.embedding_scale, tokens);
  backend_.rms_norm(tokens, weights.token_norm.floats(), epsilon, rows_, width, tokens);
  const KvPlace place = kv_.mtp_rows;
  backend_.latent()->load_previous_rows(batch.pool->view(place.group, place.layer), batch_.slices(place.group), before);
  backend_.rms_norm(before, weights.row_norm.floats(), epsilon, rows_, width, before);
  backend_.copy_columns(tokens, width, activations_.pairs, 2 * width, rows_, width);
  backend_.copy_columns(before, width, activations_.pairs + width, 2 * width, rows_, width);
  const MatmulTarget pair[] = {weights.pair.to(hidden_)};
  backend_.matmul(pair, activations_.pairs, rows_);
}

void Decoder::follow(const Batch& batch) {
  rows_ = batch_.rows();
  begin_drafts(batch);
  const size_t layer = description_.layers.size();
  const LayerConfig& config = description_.layer(layer);
  const LayerWeights& weights = weights_of(layer);
  const MatmulTarget projections[] = {weights.key.to(activations_.key), weights.value.to(activations_.value)};
  backend_.matmul(projections, block_input(weights.attention_norm), rows_);
  if (config.qk_norm) norm_heads(activations_.key, config.kv_heads, config.key_dim, weights.key_norm);
  if (config.rope != kNoRope) {
    const RopeConfig& rope = description_.ropes[config.rope];
    const RopeHeads rotated[] = {{activations_.key, config.kv_heads}};
    backend_.rope(rope.style, rope_table(config.rope), rope.dims, rotated, rows_, config.key_dim);
  }
  const KvPlace place = kv_.places[layer];
  backend_.store_kv(batch.pool->view(place.group, place.layer), batch_.slices(place.group), activations_.key,
                    activations_.value);
}

}  // namespace cairn
