#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The drafting head (DSpark) of Decoder. A step leaves the keys that the head makes of the text in the windows of its
// layers. A block of drafts writes its own keys behind them, where the next step writes over them.
namespace cairn::model {

int32_t Decoder::draft_slices_max(const DecoderConfig& model, int32_t rows_max, int32_t logits_max) {
  return model.dspark ? std::min(rows_max / model.dspark->block, logits_max) : 0;
}

void Decoder::reserve_dspark() {
  const int32_t drafting = draft_slices_max(config_, rows_max_, logit_rows_max_);
  const int64_t rows = int64_t{drafting} * config_.dspark->block;
  block_.tokens.reserve(rows);
  block_.row_slices.reserve(rows);
  block_.slices.reserve(drafting);
  block_.pages.reserve(drafting);
  block_.rows.reserve(drafting);
  block_.confidence.resize(drafting);
}

void Decoder::keep_main_inputs(size_t layer) {
  const int64_t width = config_.embedding;
  const std::vector<int32_t>& targets = config_.dspark->targets;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::cmp_not_equal(targets[i], layer)) continue;
    backend_.copy_columns(residual_.mean(rows_), width,
                          activations_.dspark.main_inputs + static_cast<int64_t>(i) * width,
                          std::ssize(targets) * width, rows_, width);
  }
}

void Decoder::follow_dspark(const cache::PagePool& pool) {
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose_all();
  rows_ = batch_.rows();
  const DsparkWeights& head = weights_.dspark;
  float* x = activations_.residual.normed;
  const kernels::MatmulTarget main[] = {head.main.to(x)};
  backend_.matmul(main, activations_.dspark.main_inputs, rows_);
  head.main_norm.run(backend_, x, rows_, x);
  const size_t layers = config_.layers.size();
  for (size_t layer = layers; layer < layers + config_.dspark->stages; ++layer) store_keys(layer, pool, x);
}

Result<LogitsView> Decoder::dspark_step(const Batch& batch) {
  const DsparkConfig& dspark = *config_.dspark;
  const int32_t ahead = batch.slices.front().drafts_before;
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.drafts_before == ahead);
  CAIRN_CHECK(ahead < dspark.block);
  if (ahead == 0) plan_block(batch);
  backend_.begin_step();
  if (ahead == 0) compute_block(*batch.pool);

  block_.rows.clear();
  for (const BatchSlice& slice : batch.slices) {
    const auto found = std::ranges::find(block_.pages, slice.pages);
    CAIRN_CHECK(found != block_.pages.end());
    block_.rows.push_back(static_cast<int32_t>(found - block_.pages.begin()) * dspark.block + ahead);
  }
  const auto rows = static_cast<int32_t>(block_.rows.size());
  const int64_t vocabulary = config_.vocabulary;
  const DsparkWeights& head = weights_.dspark;
  if (kernels::LowRankRows* const adapters = weights_.adapter_rows.get()) {
    // A product has a row for each sequence from here on.
    adapters->begin();
    for (const BatchSlice& slice : batch.slices) adapters->add(slice.adapter_scales, 1);
  }
  backend_.embed(head.markov_embedding, batch.tokens, 1, activations_.dspark.markov_rows);
  const kernels::MatmulTarget pairs[] = {head.markov_output.to(activations_.logits)};
  backend_.matmul(pairs, activations_.dspark.markov_rows, rows);
  backend_.gather_rows(activations_.dspark.block_logits, block_.rows, vocabulary, activations_.dspark.draft_logits);
  backend_.add(activations_.logits, activations_.dspark.draft_logits, rows * vocabulary, 1);
  if (head.has_confidence) judge_drafts();
  CAIRN_TRY(LogitsView view, head_.take(activations_.logits, rows, batch.keep_logits));
  if (head.has_confidence) view.confidence = std::span(block_.confidence).first(rows);
  return view;
}

// The block's rows are those of a batch; for attention each is a slice of its own.
void Decoder::plan_block(const Batch& batch) {
  const DsparkConfig& dspark = *config_.dspark;
  const int32_t block = dspark.block, group = kv_.compressed[config_.layers.size()].window.group;
  CAIRN_CHECK(batch.slices.size() <= block_.confidence.size());
  block_.tokens.clear();
  block_.slices.clear();
  block_.pages.clear();
  block_.row_slices.clear();
  for (const BatchSlice& slice : batch.slices) {
    const auto begin = static_cast<int32_t>(block_.tokens.size());
    block_.tokens.push_back(batch.tokens[slice.row_begin]);
    block_.tokens.resize(begin + block, dspark.noise);
    block_.slices.push_back({.sequence = slice.sequence,
                             .row_begin = begin,
                             .rows = block,
                             .position_begin = slice.position_begin,
                             .pages = slice.pages,
                             .logits = LogitsWanted::kNone,
                             .adapter_scales = slice.adapter_scales});
    block_.pages.push_back(slice.pages);
    for (int32_t row = begin; row < begin + block; ++row) {
      block_.row_slices.push_back({row, 1, slice.position_begin + block - 1, slice.pages->groups[group]});
    }
  }
  plan({block_.tokens, block_.slices, batch.pool});
}

// Leaves rows of block_hidden and block_logits.
void Decoder::compute_block(const cache::PagePool& pool) {
  const DsparkWeights& weights = weights_.dspark;
  compute_ropes();
  weights_.embedding.look_up(backend_, block_.tokens, config_.embedding_scale, residual_.begin_step());
  residual_.spread(rows_);
  const size_t layers = config_.layers.size();
  for (size_t layer = layers; layer < layers + config_.dspark->stages; ++layer) {
    mix(layer, pool);
    feed_forward(layer);
  }
  float* hidden = activations_.dspark.block_hidden;
  float* normed = activations_.residual.normed;
  residual_.hyper_connections()->collapse(weights.output_streams, rows_, hidden);
  weights.output_norm.run(backend_, hidden, rows_, normed);
  const kernels::MatmulTarget output[] = {weights_.output.to(activations_.dspark.block_logits)};
  backend_.matmul(output, normed, rows_);
}

void Decoder::judge_drafts() {
  const int64_t width = config_.embedding, rank = config_.dspark->markov_rank, both = width + rank;
  const auto rows = static_cast<int32_t>(block_.rows.size());
  backend_.gather_rows(activations_.dspark.block_hidden, block_.rows, width, activations_.residual.normed);
  backend_.copy_columns(activations_.residual.normed, width, activations_.dspark.confidence_inputs, both, rows, width);
  backend_.copy_columns(activations_.dspark.markov_rows, rank, activations_.dspark.confidence_inputs + width, both,
                        rows, rank);
  const kernels::MatmulTarget confidence[] = {weights_.dspark.confidence.to(activations_.dspark.confidence)};
  backend_.matmul(confidence, activations_.dspark.confidence_inputs, rows);
  backend_.read(activations_.dspark.confidence, rows * static_cast<int64_t>(sizeof(float)), block_.confidence.data());
  for (float& each : std::span(block_.confidence).first(rows)) each = 1 / (1 + std::exp(-each));
}

}  // namespace cairn::model
