#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/deepseek4/runner.h"

// The drafting head of ModelRunner. A step leaves the keys that the head makes of the text in the windows of its
// layers. A block of drafts writes its own keys behind them, where the next step writes over them.
namespace cairn::deepseek4 {

int32_t ModelRunner::draft_slices_max(const ModelConfig& model, const ModelOptions& options) {
  return std::min(options.batch_tokens_max / model.dspark->block, options.logits_max);
}

void ModelRunner::reserve_dspark(const ModelOptions& options) {
  const int64_t drafting = draft_slices_max(config_, options);
  const int64_t block_rows = drafting * config_.dspark->block;
  block_tokens_.reserve(block_rows);
  block_row_slices_.reserve(block_rows);
  block_slices_.reserve(drafting);
  block_pages_.reserve(drafting);
  block_rows_.reserve(drafting);
  confidence_.resize(drafting);
}

void ModelRunner::keep_main_inputs(size_t layer) {
  const int64_t width = config_.embedding;
  const std::vector<int32_t>& targets = config_.dspark->targets;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::cmp_not_equal(targets[i], layer)) continue;
    streams_.average(rows_, activations_.input);
    backend_.copy_columns(activations_.input, width, activations_.main_inputs + static_cast<int64_t>(i) * width,
                          std::ssize(targets) * width, rows_, width);
  }
}

void ModelRunner::follow_dspark() {
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose_all();
  rows_ = batch_.rows();
  const DsparkWeights& head = weights_.dspark;
  const MatmulTarget main[] = {head.main.to(activations_.input)};
  backend_.matmul(main, activations_.main_inputs, rows_);
  head.main_norm.run(backend_, activations_.input, rows_, activations_.input);
  for (size_t layer = config_.main_layers(); layer < config_.layers.size(); ++layer) {
    store_keys(layer);
  }
}

Result<LogitsView> ModelRunner::dspark_step(const Batch& batch) {
  const DsparkConfig& dspark = *config_.dspark;
  const int32_t ahead = batch.slices.front().drafts_before;
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.drafts_before == ahead);
  CAIRN_CHECK(ahead < dspark.block);
  if (ahead == 0) plan_block(batch);
  backend_.begin_step();
  if (ahead == 0) compute_block();

  block_rows_.clear();
  for (const BatchSlice& slice : batch.slices) {
    const auto found = std::ranges::find(block_pages_, slice.pages);
    CAIRN_CHECK(found != block_pages_.end());
    block_rows_.push_back(static_cast<int32_t>(found - block_pages_.begin()) * dspark.block + ahead);
  }
  const auto rows = static_cast<int32_t>(block_rows_.size());
  const int64_t vocabulary = config_.vocabulary;
  const DsparkWeights& head = weights_.dspark;
  if (LowRankRows* const adapters = weights_.adapter_rows.get()) {
    // A product has a row for each sequence from here on.
    adapters->begin();
    for (const BatchSlice& slice : batch.slices) adapters->add(slice.adapter_scales, 1);
  }
  backend_.embed(head.markov_embedding, batch.tokens, 1, activations_.markov_rows);
  const MatmulTarget pairs[] = {head.markov_output.to(activations_.logits)};
  backend_.matmul(pairs, activations_.markov_rows, rows);
  backend_.gather_rows(activations_.block_logits, block_rows_, vocabulary, activations_.draft_logits);
  backend_.add(activations_.logits, activations_.draft_logits, rows * vocabulary, 1);
  if (head.has_confidence) judge_drafts();
  CAIRN_TRY(LogitsView view, head_.take(activations_.logits, rows, batch.keep_logits));
  if (head.has_confidence) view.confidence = std::span(confidence_).first(rows);
  return view;
}

// As rows of the batch; for attention each is a slice of its own.
void ModelRunner::plan_block(const Batch& batch) {
  const DsparkConfig& dspark = *config_.dspark;
  const int32_t block = dspark.block, group = places_[config_.main_layers()].window.group;
  CAIRN_CHECK(batch.slices.size() <= confidence_.size());
  block_tokens_.clear();
  block_slices_.clear();
  block_pages_.clear();
  block_row_slices_.clear();
  for (const BatchSlice& slice : batch.slices) {
    const auto begin = static_cast<int32_t>(block_tokens_.size());
    block_tokens_.push_back(batch.tokens[slice.row_begin]);
    block_tokens_.resize(begin + block, dspark.noise);
    block_slices_.push_back({.sequence = slice.sequence,
                             .row_begin = begin,
                             .rows = block,
                             .position_begin = slice.position_begin,
                             .pages = slice.pages,
                             .logits = LogitsWanted::kNone,
                             .adapter_scales = slice.adapter_scales});
    block_pages_.push_back(slice.pages);
    for (int32_t row = begin; row < begin + block; ++row) {
      block_row_slices_.push_back({row, 1, slice.position_begin + block - 1, slice.pages->groups[group]});
    }
  }
  plan({block_tokens_, block_slices_, batch.pool});
}

// Leaves rows of activations_.block_hidden and activations_.block_logits.
void ModelRunner::compute_block() {
  const DsparkWeights& head = weights_.dspark;
  attention_.compute_ropes();
  begin_streams(block_tokens_);
  for (size_t layer = config_.main_layers(); layer < config_.layers.size(); ++layer) {
    attention(layer);
    feed_forward(layer);
  }
  streams_.collapse(head.output_streams, rows_, activations_.block_hidden);
  head.output_norm.run(backend_, activations_.block_hidden, rows_, activations_.input);
  const MatmulTarget output[] = {weights_.output.to(activations_.block_logits)};
  backend_.matmul(output, activations_.input, rows_);
}

void ModelRunner::judge_drafts() {
  const int64_t width = config_.embedding, rank = config_.dspark->markov_rank, both = width + rank;
  const auto rows = static_cast<int32_t>(block_rows_.size());
  backend_.gather_rows(activations_.block_hidden, block_rows_, width, activations_.input);
  backend_.copy_columns(activations_.input, width, activations_.confidence_inputs, both, rows, width);
  backend_.copy_columns(activations_.markov_rows, rank, activations_.confidence_inputs + width, both, rows, rank);
  const MatmulTarget confidence[] = {weights_.dspark.confidence.to(activations_.confidence)};
  backend_.matmul(confidence, activations_.confidence_inputs, rows);
  backend_.read(activations_.confidence, rows * static_cast<int64_t>(sizeof(float)), confidence_.data());
  for (float& each : std::span(confidence_).first(rows)) each = 1 / (1 + std::exp(-each));
}

}  // namespace cairn::deepseek4
