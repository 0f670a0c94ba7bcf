#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The MTP module of Decoder, or an assistant in its place: a decoder of its own that reads keys and values of this one.
// At position p it reads the token there and the normalised row that the model, or the module itself in a draft before,
// has left at p - 1; so what a step has computed is all that drafts need.
namespace cairn {

Result<LogitsView> Decoder::mtp_step(const Batch& batch) {
  CAIRN_CHECK(has_mtp());
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.rows == 1 && slice.logits == LogitsWanted::kLast);
  plan(batch);
  backend_.begin_step();
  if (assistant_ != nullptr) return assisted_step(batch);
  compute_ropes();
  begin_drafts(batch);
  const size_t layer = config_.layers.size();
  mix(layer, *batch.pool);
  feed_forward(layer);
  const MtpWeights& weights = weights_.mtp;
  norm_hidden(weights.output_norm.exists() ? weights.output_norm : weights_.output_norm, hidden_);
  keep_rows(*batch.pool, hidden_);
  return head(weights.output.weight.rows > 0 ? weights.output : weights_.output);
}

Result<LogitsView> Decoder::logits_of_kept_rows(const PagePool& pool) {
  const int64_t width = config_.embedding;
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
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose(batch_.logit_rows(), batch_.hidden_rows());
  return head(weights_.output);
}

void Decoder::keep_rows(const PagePool& pool, const float* rows) {
  const KvPlace place = kv_.mtp_rows;
  backend_.mla()->store_rows(pool.view(place.group, place.layer), batch_.slices(place.group), rows);
}

void Decoder::begin_drafts(const Batch& batch) {
  residual_pending_ = false;
  hidden_ = activations_.hidden;
  pair_rows(batch);
  const MatmulTarget pair[] = {weights_.mtp.pair.to(hidden_)};
  backend_.matmul(pair, activations_.pairs, rows_);
}

void Decoder::pair_rows(const Batch& batch) {
  const MtpWeights& weights = weights_.mtp;
  const int64_t width = config_.embedding;
  const bool normed = assistant_ == nullptr;
  float* tokens = activations_.normed;
  float* before = activations_.block;
  const float scale = config_.embedding_scale;
  if (weights.embedding.rows > 0) {
    backend_.embed(weights.embedding, batch.tokens, scale, tokens);
  } else {
    weights_.embedding.look_up(backend_, batch.tokens, scale, tokens);
  }
  if (normed) weights.token_norm.run(backend_, tokens, rows_, tokens);
  const KvPlace place = kv_.mtp_rows;
  backend_.mla()->load_previous_rows(batch.pool->view(place.group, place.layer), batch_.slices(place.group), before);
  if (normed) weights.row_norm.run(backend_, before, rows_, before);
  backend_.copy_columns(tokens, width, activations_.pairs, 2 * width, rows_, width);
  backend_.copy_columns(before, width, activations_.pairs + width, 2 * width, rows_, width);
}

void Decoder::use_assistant(std::unique_ptr<Decoder> assistant, Linear in, Linear out) {
  CAIRN_CHECK(config_.keeps_rows && !config_.mtp_layer);
  assistant_ = std::move(assistant);
  assistant_in_ = std::move(in);
  assistant_out_ = std::move(out);
  assistant_slices_.reserve(static_cast<size_t>(logit_rows_max_));
  assistant_->turns_.reserve(static_cast<size_t>(logit_rows_max_));
}

// All drafts of a sequence see the positions that the model has computed, and are turned by the one behind.
Result<LogitsView> Decoder::assisted_step(const Batch& batch) {
  pair_rows(batch);
  assistant_slices_.assign(batch.slices.begin(), batch.slices.end());
  for (BatchSlice& slice : assistant_slices_) slice.position_begin -= slice.drafts_before + 1;
  const Batch drafts{batch.tokens, assistant_slices_, batch.pool, batch.keep_logits};
  float* rows = activations_.block;
  CAIRN_TRY(const LogitsView result,
            assistant_->assist(drafts, assistant_in_, activations_.pairs, assistant_out_, rows));
  keep_rows(*batch.pool, rows);
  return result;
}

Result<LogitsView> Decoder::assist(const Batch& batch, const Linear& in, const float* pairs, const Linear& out,
                                   float* rows) {
  plan(batch);
  turns_.clear();
  for (const int32_t position : batch_.positions()) turns_.push_back(position + 1);
  hidden_ = activations_.hidden;
  const MatmulTarget begin[] = {in.to(hidden_)};
  backend_.matmul(begin, pairs, rows_);
  run_layers(*batch.pool);
  norm_hidden(weights_.output_norm, hidden_);
  const MatmulTarget end[] = {out.to(rows)};
  backend_.matmul(end, hidden_, rows_);
  return head(weights_.output);
}

void Decoder::follow(const Batch& batch) {
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose_all();
  rows_ = batch_.rows();
  begin_drafts(batch);
  const size_t layer = config_.layers.size();
  const LayerWeights& weights = weights_of(layer);
  weights.attention->project_keys(backend_, activations_.attention, attention_step(layer, *batch.pool),
                                  block_input(weights.attention_norm));
}

}  // namespace cairn
