#include "model/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn {

namespace {

// Only with the last layer are there any.
int32_t logit_rows_of(const DecoderConfig& config, const ModelOptions& options, LayerRange range) {
  return range.is_last(config) ? options.logits_max : 0;
}

// Every draft has logits.
RecurrentSizes recurrent_sizes(const DecoderConfig& config, const ModelOptions& options, LayerRange range) {
  const auto layers = std::span(config.layers).subspan(range.begin, range.end - range.begin);
  return {.rows = options.batch_tokens_max,
          .drafts = options.logits_max,
          .layers = static_cast<int32_t>(std::ranges::count_if(layers, &LayerConfig::recurs))};
}

}  // namespace

Decoder::Decoder(DecoderConfig config, DecoderWeights weights, Backend& backend, const ModelOptions& options,
                 LayerRange range, KvPlan kv)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      range_(range),
      rows_max_(options.batch_tokens_max),
      logit_rows_max_(options.logits_max),
      kv_(std::move(kv)),
      head_(backend, config_.head()) {}

Result<std::unique_ptr<Decoder>> Decoder::create(DecoderConfig config, DecoderWeights weights, Backend& backend,
                                                 const ModelOptions& options, LayerRange range, KvPlan kv) {
  std::unique_ptr<Decoder> decoder(
      new Decoder(std::move(config), std::move(weights), backend, options, range, std::move(kv)));
  const DecoderConfig& model = decoder->config_;
  const int32_t rows = options.batch_tokens_max;
  const int32_t logit_rows = logit_rows_of(model, options, range);
  CAIRN_TRY(decoder->control_vectors_,
            ControlVectors::load(options.control_vectors, std::ssize(model.layers), model.embedding, backend));
  CAIRN_TRY_VOID(decoder->allocate(logit_rows));
  CAIRN_TRY_VOID(backend.reserve(work_sizes(model, rows, logit_rows)));
  if (model.recurrent) {
    const RecurrentSizes sizes = recurrent_sizes(model, options, range);
    CAIRN_TRY(decoder->recurrent_, RecurrentLayers::create(backend, *model.recurrent, sizes));
    decoder->states_.reserve(rows);
    decoder->draft_rows_.reserve(sizes.drafts);
  }
  if (model.per_layer_input > 0) {
    CAIRN_TRY(decoder->per_layer_inputs_,
              PerLayerInputs::create(backend, model.per_layer_inputs(range.begin, range.end),
                                     decoder->weights_.per_layer_inputs, rows));
  }
  decoder->batch_.reserve({.rows = rows,
                           .logit_rows = options.logits_max,
                           .context_tokens = model.context_tokens,
                           .vocabulary = model.vocabulary,
                           .groups = decoder->kv_.layout.groups.size(),
                           .hidden = true});
  decoder->temperatures_.reserve(rows);
  decoder->position_ids_.reserve(rows);
  decoder->head_.reserve(logit_rows, rows);
  CAIRN_TRY_VOID(decoder->read_labels());
  return decoder;
}

Result<void> Decoder::allocate(int32_t logit_rows) {
  activations_.add_to(arena_, config_, rows_max_, logit_rows);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  // Writes its zeros: the first prompt would wait for the system to clear the pages. Not those of logits, the last
  // array: few steps want more than a few rows of them.
  backend_.clamp(activations_.hidden, activations_.logits - activations_.hidden, 0, 0);
  if (config_.mla) activations_.mla.write_heads(backend_, *config_.mla, rows_max_);
  return {};
}

WorkspaceSizes Decoder::work_sizes(const DecoderConfig& model, int32_t rows, int32_t logit_rows) {
  WorkspaceSizes sizes;
  sizes.sample_rows = logit_rows;
  sizes.inputs.push_back({rows, std::max(model.embedding, model.attended_elements())});
  FeedForward::add_work(rows, model.dense_inner_elements(), sizes);
  if (model.experts) Experts::add_work(*model.experts, rows, sizes);
  if (model.mla) {
    Mla::add_work(*model.mla, rows, model.context_tokens, sizes);
  } else if (model.heads > 0) {
    Attention::add_work(rows, model.heads, model.head_dim(), model.context_tokens, sizes);
  }
  if (model.recurrent) RecurrentLayers::add_work(*model.recurrent, rows, sizes);
  if (model.keeps_rows) sizes.inputs.push_back({rows, 2 * model.embedding});
  if (model.per_layer_input > 0) PerLayerInputs::add_work(model.per_layer_inputs(0, 0), rows, sizes);
  return sizes;
}

int64_t Decoder::workspace_bytes(const DecoderConfig& config, const Backend& backend, const ModelOptions& options,
                                 LayerRange range) {
  return backend.workspace_bytes(work_sizes(config, options.batch_tokens_max, logit_rows_of(config, options, range)));
}

int64_t Decoder::bytes(const DecoderConfig& config, const Backend& backend, const ModelOptions& options,
                       LayerRange range) {
  const int32_t logit_rows = logit_rows_of(config, options, range);
  ActivationArena arena;
  DecoderActivations activations;
  activations.add_to(arena, config, options.batch_tokens_max, logit_rows);
  // Logits and hidden rows are kept a second time in host memory.
  int64_t bytes = arena.bytes() + Head::bytes(config.head(), logit_rows, options.batch_tokens_max) +
                  workspace_bytes(config, backend, options, range);
  if (config.recurrent) bytes += RecurrentLayers::bytes(*config.recurrent, recurrent_sizes(config, options, range));
  if (config.per_layer_input > 0)
    bytes += PerLayerInputs::bytes(config.per_layer_inputs(range.begin, range.end), options.batch_tokens_max);
  return bytes;
}

Result<LogitsView> Decoder::step(const Batch& batch) {
  CAIRN_CHECK(range_.is_first() && range_.is_last(config_));
  begin_with_tokens(batch);
  run_layers(*batch.pool);
  return finish(batch);
}

Result<LogitsView> Decoder::finish(const Batch& batch) {
  if (!has_mtp()) return logits();
  CAIRN_TRY(const LogitsView result, logits_of_kept_rows(*batch.pool));
  if (config_.mtp_layer) follow(batch);
  return result;
}

Result<void> Decoder::first_step(const Batch& batch, std::span<float> rows) {
  CAIRN_CHECK(range_.is_first() && !range_.is_last(config_));
  begin_with_tokens(batch);
  CAIRN_CHECK(std::ssize(rows) == rows_ * config_.embedding);
  run_layers(*batch.pool);
  backend_.read(hidden(), static_cast<int64_t>(rows.size_bytes()), rows.data());
  return backend_.finish();
}

Result<void> Decoder::middle_step(const Batch& batch, std::span<float> rows) {
  CAIRN_CHECK(!range_.is_first() && !range_.is_last(config_));
  begin_with(batch, rows);
  run_layers(*batch.pool);
  backend_.read(hidden(), static_cast<int64_t>(rows.size_bytes()), rows.data());
  return backend_.finish();
}

Result<LogitsView> Decoder::last_step(const Batch& batch, std::span<const float> rows) {
  CAIRN_CHECK(!range_.is_first() && range_.is_last(config_));
  begin_with(batch, rows);
  run_layers(*batch.pool);
  return finish(batch);
}

void Decoder::begin_with_tokens(const Batch& batch) {
  plan(batch);
  if (per_layer_inputs_) per_layer_inputs_->look_up(batch.tokens);
  backend_.begin_step();
  hidden_ = activations_.hidden;
  weights_.embedding.look_up(backend_, batch.tokens, config_.embedding_scale, hidden_);
  if (per_layer_inputs_) per_layer_inputs_->compute(hidden_);
  if (!config_.learned_positions) return;
  position_ids_.clear();
  for (const int32_t position : batch_.positions()) position_ids_.push_back(TokenId{position});
  backend_.embed(weights_.positions, position_ids_, 1, activations_.block);
  backend_.add(hidden_, activations_.block, rows_ * config_.embedding, 1);
}

void Decoder::begin_with(const Batch& batch, std::span<const float> rows) {
  plan(batch);
  CAIRN_CHECK(std::ssize(rows) == rows_ * config_.embedding);
  hidden_ = activations_.hidden;
  backend_.write(rows.data(), static_cast<int64_t>(rows.size_bytes()), hidden_);
  if (per_layer_inputs_) per_layer_inputs_->look_up(batch.tokens);
  backend_.begin_step();
  if (!per_layer_inputs_) return;
  weights_.embedding.look_up(backend_, batch.tokens, config_.embedding_scale, activations_.normed);
  per_layer_inputs_->compute(activations_.normed);
}

void Decoder::run_layers(const PagePool& pool) {
  compute_ropes();
  for (auto layer = static_cast<size_t>(range_.begin); layer < static_cast<size_t>(range_.end); ++layer) {
    mix(layer, pool);
    if (per_layer_inputs_) per_layer_inputs_->begin_layer(static_cast<int32_t>(layer));
    if (layer + 1 == config_.layers.size() && !has_mtp()) select_output_rows();
    if (config_.layer(layer).feed_forward) feed_forward(layer);
    end_layer(layer);
  }
}

void Decoder::plan(const Batch& batch) {
  batch_.plan(batch);
  rows_ = batch_.rows();
  keeps_logits_ = batch.keep_logits;
  if (LowRankRows* const adapters = weights_.adapter_rows.get()) {
    adapters->begin();
    for (const BatchSlice& slice : batch.slices) adapters->add(slice.adapter_scales, slice.rows);
  }
  states_.clear();
  draft_rows_.clear();
  if (recurrent_) {
    for (const BatchSlice& slice : batch.slices) {
      const int32_t end = slice.row_begin + slice.rows;
      states_.push_back({slice.row_begin, slice.rows, slice.position_begin, nullptr, slice.drafts});
      for (int32_t row = end - slice.drafts; row < end; ++row) draft_rows_.push_back(row);
    }
  }
  temperatures_.clear();
  if (config_.temperature_scale == 0) return;
  for (const int32_t position : batch_.positions()) {
    const int32_t stretches = (position + config_.temperature_offset) / config_.temperature_length;
    temperatures_.push_back(1 + config_.temperature_scale * std::log(1 + static_cast<float>(stretches)));
  }
}

void Decoder::compute_ropes() { activations_.ropes.compute(backend_, turns_.empty() ? batch_.positions() : turns_); }

void Decoder::mix(size_t layer, const PagePool& pool) {
  const LayerConfig& kind = config_.layer(layer);
  if (kind.mixer == Mixer::kNone) return;
  const LayerWeights& weights = weights_of(layer);
  const float* x = block_input(weights.attention_norm);
  if (config_.parallel_residual) begin_parallel(weights, x);
  if (kind.attends()) attention(layer, pool, x);
  if (kind.recurs()) recur(layer, pool, x);
  control_vectors_.after_attention(backend_, layer, activations_.block, rows_);
  add_block(weights.attention_post_norm);
}

AttentionStep Decoder::attention_step(size_t layer, const PagePool& pool) const {
  const LayerConfig& config = config_.layer(layer);
  const KvPlace place = kv_.places[layer];
  AttentionStep step;
  step.rows = rows_;
  if (config.rope != kNoRope) {
    step.rope = &config_.ropes[config.rope];
    step.rope_table = activations_.ropes.table(config.rope);
  }
  if (config.temperature) step.temperatures = temperatures_;
  step.slices = batch_.slices(place.group);
  step.kv = pool.view(place.group, place.layer);
  return step;
}

void Decoder::attention(size_t layer, const PagePool& pool, const float* x) {
  const LayerWeights& weights = weights_of(layer);
  const AttentionStep step = attention_step(layer, pool);
  if (!config_.mla) return weights.attention->run(backend_, activations_.attention, step, x, activations_.block);
  MlaStep rows{.attention = step, .index_keys = {}};
  const KvPlace place = kv_.places[layer];
  if (config_.mla->indexer && config_.layer(layer).indexer) {
    rows.index_keys = pool.view(place.group, place.layer + 1);
  }
  weights.mla->run(backend_, activations_.mla, rows, x, activations_.block);
}

void Decoder::end_layer(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_of(layer);
  if (per_layer_inputs_) {
    float* block = activations_.block;
    weights.input->run(backend_, *per_layer_inputs_, hidden(), rows_, block);
    control_vectors_.after_feed_forward(backend_, layer, block, rows_);
    add_block(weights.input_post_norm);
  }
  if (config_.layer_output_scale) {
    backend_.scale_and_softcap(hidden(), rows_ * config_.embedding, weights.output_scale, 0);
  }
}

void Decoder::add_block(const Norm& post_norm) {
  if (config_.post_norms) post_norm.run(backend_, activations_.block, rows_, activations_.block);
  residual_pending_ = true;
}

float* Decoder::hidden() {
  if (std::exchange(residual_pending_, false)) {
    backend_.add(hidden_, activations_.block, rows_ * config_.embedding, config_.residual_scale);
  }
  return hidden_;
}

const float* Decoder::block_input(const Norm& norm) {
  if (!config_.pre_norms) return hidden();
  float* normed = activations_.normed;
  norm_hidden(norm, normed);
  return normed;
}

void Decoder::begin_parallel(const LayerWeights& weights, const float* x) {
  parallel_input_ = x;
  if (config_.feed_forward_norm.empty()) return;
  norm_hidden(weights.feed_forward_norm, activations_.parallel);
  parallel_input_ = activations_.parallel;
}

void Decoder::norm_hidden(const Norm& norm, float* out) {
  if (std::exchange(residual_pending_, false)) {
    norm.add_and_run(backend_, hidden_, activations_.block, config_.residual_scale, rows_, out);
  } else {
    norm.run(backend_, hidden_, rows_, out);
  }
}

// Those of logits first.
void Decoder::select_output_rows() {
  const auto gather = [&](const float* all, int64_t width, float* wanted) {
    const int64_t logits = std::ssize(batch_.logit_rows()) * width;
    if (logits > 0) backend_.gather_rows(all, batch_.logit_rows(), width, wanted);
    if (!batch_.hidden_rows().empty()) backend_.gather_rows(all, batch_.hidden_rows(), width, wanted + logits);
  };
  gather(hidden(), config_.embedding, activations_.last);
  if (config_.parallel_residual) {
    float* other = parallel_input_ == activations_.parallel ? activations_.normed : activations_.parallel;
    gather(parallel_input_, config_.embedding, other);
    parallel_input_ = other;
  }
  if (per_layer_inputs_) {
    gather(per_layer_inputs_->input(), config_.per_layer_input, per_layer_inputs_->other());
    per_layer_inputs_->use_other();
  }
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose(batch_.logit_rows(), batch_.hidden_rows());
  rows_ = static_cast<int32_t>(batch_.logit_rows().size() + batch_.hidden_rows().size());
  hidden_ = activations_.last;
}

Result<LogitsView> Decoder::logits() {
  if (rows_ > 0) norm_hidden(weights_.output_norm, hidden_);
  return head(weights_.output);
}

Result<LogitsView> Decoder::head(const Linear& output) {
  const HeadRows rows{.logits = static_cast<int32_t>(batch_.logit_rows().size()),
                      .hidden = static_cast<int32_t>(batch_.hidden_rows().size()),
                      .keep_logits = keeps_logits_};
  return head_.run(output, hidden_, rows, activations_.logits);
}

EmbeddingAbility Decoder::embedding() const {
  return {.dimensions = static_cast<int32_t>(config_.embedding), .pooling = config_.pooling, .ranks = !labels_.empty()};
}

Result<void> Decoder::read_labels() {
  const int64_t rows = weights_.labels.rows;
  if (rows == 0) return {};
  const int64_t bytes = rows * config_.embedding * static_cast<int64_t>(sizeof(float));
  CAIRN_TRY(const Buffer buffer, backend_.allocate(bytes));
  const TokenId ids[] = {TokenId{0}, TokenId{1}};
  backend_.embed(weights_.labels, std::span(ids).first(static_cast<size_t>(rows)), 1, buffer.floats());
  labels_.resize(rows * config_.embedding);
  backend_.read(buffer.data(), bytes, labels_.data());
  return backend_.finish();
}

// Of two outputs the first means yes: the logit of its share is their difference.
float Decoder::rank(std::span<const float> hidden) const {
  const auto width = static_cast<size_t>(config_.embedding);
  CAIRN_CHECK(!labels_.empty() && hidden.size() == width);
  double logit = 0;
  for (size_t i = 0; i < labels_.size(); ++i) {
    const double product = double{labels_[i]} * hidden[i % width];
    logit += i < width ? product : -product;
  }
  return static_cast<float>(logit);
}

}  // namespace cairn
