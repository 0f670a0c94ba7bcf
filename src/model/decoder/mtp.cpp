#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The MTP module of Decoder, or an assistant in its place: a decoder of its own that reads keys and values of this one.
// At position p it reads the token there and the row that the model, or the module itself in a draft before, has left
// at p - 1: its streams, or where there is one the normalised row. So what a step has computed is all that drafts need.
namespace cairn::model {

Result<LogitsView> Decoder::mtp_step(const Batch& batch) {
  CAIRN_CHECK(has_mtp());
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.rows == 1 && slice.logits == LogitsWanted::kLast);
  if (config_.dspark) return dspark_step(batch);
  plan(batch);
  backend_.begin_step();
  if (assistant_ != nullptr) return assisted_step(batch);
  compute_ropes();
  begin_drafts(batch);
  const size_t layer = config_.layers.size();
  mix(layer, *batch.pool);
  feed_forward(layer);
  const MtpWeights& weights = weights_.mtp;
  const bool several = residual_.hyper_connections() != nullptr;
  if (several) keep_rows(*batch.pool, residual_.stream(rows_));
  const float* rows =
      residual_.finish(weights.output_norm.exists() ? weights.output_norm : weights_.output_norm,
                       weights.output_streams.exist() ? weights.output_streams : weights_.output_streams, rows_);
  if (!several) keep_rows(*batch.pool, rows);
  return head(weights.output.weight.rows > 0 ? weights.output : weights_.output, rows);
}

Result<LogitsView> Decoder::logits_of_kept_rows(const cache::PagePool& pool) {
  if (residual_.hyper_connections() != nullptr) {
    keep_rows(pool, residual_.stream(rows_));
    select_output_rows();
    return logits();
  }
  float* rows = activations_.residual.normed;
  residual_.norm_stream(weights_.output_norm, rows_, rows);
  keep_rows(pool, rows);
  // Rows of logits come first.
  const std::span<const int32_t> logits = batch_.logit_rows(), hidden = batch_.hidden_rows();
  gather_chosen(backend_, rows, logits, hidden, config_.embedding, activations_.residual.last);
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose(logits, hidden);
  return head(weights_.output, activations_.residual.last);
}

void Decoder::keep_rows(const cache::PagePool& pool, const float* rows) {
  const KvPlace place = kv_.mtp_rows;
  backend_.mla()->store_rows(pool.view(place.group, place.layer), batch_.slices(place.group), rows);
}

void Decoder::begin_drafts(const Batch& batch) {
  residual_.begin_step();
  pair_rows(batch);
  if (weights_.mtp.pair.weight.rows == 0) return;
  const kernels::MatmulTarget pair[] = {weights_.mtp.pair.to(residual_.stream(rows_))};
  backend_.matmul(pair, activations_.pairs, rows_ * config_.residual.streams());
}

void Decoder::pair_rows(const Batch& batch) {
  const MtpWeights& weights = weights_.mtp;
  HyperConnections* const several = residual_.hyper_connections();
  const int64_t width = config_.embedding, rows = int64_t{rows_} * config_.residual.streams();
  const bool normed = assistant_ == nullptr;
  float* tokens = activations_.residual.normed;
  float* before = several != nullptr ? several->flat() : residual_.block();
  const float scale = config_.embedding_scale;
  if (weights.embedding.rows > 0) {
    backend_.embed(weights.embedding, batch.tokens, scale, tokens);
  } else {
    weights_.embedding.look_up(backend_, batch.tokens, scale, tokens);
  }
  if (normed) weights.token_norm.run(backend_, tokens, rows_, tokens);
  const KvPlace place = kv_.mtp_rows;
  backend_.mla()->load_previous_rows(batch.pool->view(place.group, place.layer), batch_.slices(place.group), before);
  if (normed) weights.row_norm.run(backend_, before, rows, before);
  if (weights.token.weight.rows > 0) return add_projections(tokens, before);
  if (several != nullptr) {
    several->begin(tokens, rows_);
    tokens = several->streams();
  }
  backend_.copy_columns(tokens, width, activations_.pairs, 2 * width, rows, width);
  backend_.copy_columns(before, width, activations_.pairs + width, 2 * width, rows, width);
}

void Decoder::add_projections(const float* tokens, const float* before) {
  HyperConnections& streams = *residual_.hyper_connections();
  const int64_t rows = int64_t{rows_} * config_.residual.streams();
  const kernels::MatmulTarget token[] = {weights_.mtp.token.to(residual_.block())};
  backend_.matmul(token, tokens, rows_);
  streams.repeat(residual_.block(), rows_, streams.other());
  const kernels::MatmulTarget row[] = {weights_.mtp.row.to(streams.streams())};
  backend_.matmul(row, before, static_cast<int32_t>(rows));
  backend_.add(streams.streams(), streams.other(), rows * config_.embedding, 1);
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
  float* rows = residual_.block();
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
  const kernels::MatmulTarget begin[] = {in.to(residual_.begin_step())};
  backend_.matmul(begin, pairs, rows_);
  run_layers(*batch.pool);
  const float* last = residual_.finish(weights_.output_norm, weights_.output_streams, rows_);
  const kernels::MatmulTarget end[] = {out.to(rows)};
  backend_.matmul(end, last, rows_);
  return head(weights_.output, last);
}

void Decoder::follow(const Batch& batch) {
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose_all();
  rows_ = batch_.rows();
  begin_drafts(batch);
  const size_t layer = config_.layers.size();
  const LayerWeights& weights = weights_of(layer);
  store_keys(layer, *batch.pool, residual_.read(weights.attention_norm, weights.attention_streams, rows_));
}

void Decoder::store_keys(size_t layer, const cache::PagePool& pool, const float* x) {
  const LayerWeights& weights = weights_of(layer);
  if (compressed_) return compressed_->store_keys(*weights.compressed, kv_.compressed[layer], x);
  weights.attention->project_keys(backend_, activations_.attention, attention_step(layer, pool), x);
}

}  // namespace cairn::model
