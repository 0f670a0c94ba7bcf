#include "model/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn::model {

namespace {

// Only with the last layer are there any.
int32_t logit_rows_of(const DecoderConfig& config, const ModelOptions& options, LayerRange range) {
  return range.is_last(config) ? options.logits_max : 0;
}

// A table for each engram; those of other ranges have none.
std::vector<const gguf::Tensor*> engram_tables(const DecoderConfig& config, const DecoderWeights& weights,
                                               LayerRange range) {
  std::vector<const gguf::Tensor*> tables;
  for (const int32_t layer : config.engram.layers) {
    const bool here = layer >= range.begin && layer < range.end;
    tables.push_back(here ? weights.layers[layer - range.begin].engram->table : nullptr);
  }
  return tables;
}

bool any_here(const std::vector<const gguf::Tensor*>& tables) {
  return std::ranges::any_of(tables, [](const gguf::Tensor* table) { return table != nullptr; });
}

// Every draft has logits.
RecurrentSizes recurrent_sizes(const DecoderConfig& config, const ModelOptions& options, LayerRange range) {
  const auto layers = std::span(config.layers).subspan(range.begin, range.end - range.begin);
  return {.rows = options.batch_tokens_max,
          .drafts = options.logits_max,
          .layers = static_cast<int32_t>(std::ranges::count_if(layers, &LayerConfig::recurs))};
}

}  // namespace

Decoder::Decoder(DecoderConfig config, DecoderWeights weights, kernels::Backend& backend, const ModelOptions& options,
                 LayerRange range, KvPlan kv)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      range_(range),
      rows_max_(options.batch_tokens_max),
      logit_rows_max_(options.logits_max),
      kv_(std::move(kv)),
      residual_(backend, config_.residual, config_.embedding),
      head_(backend, config_.head()) {
  if (config_.compressed) compressed_.emplace(backend, *config_.compressed, options.simulate_rounding);
  std::vector<const gguf::Tensor*> tables = engram_tables(config_, weights_, range);
  if (any_here(tables)) engrams_.emplace(backend, config_.engram, std::move(tables));
}

Result<std::unique_ptr<Decoder>> Decoder::create(DecoderConfig config, DecoderWeights weights,
                                                 kernels::Backend& backend, const ModelOptions& options,
                                                 LayerRange range, KvPlan kv) {
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
  decoder->reserve_rows(options, logit_rows);
  CAIRN_TRY_VOID(decoder->read_labels());
  return decoder;
}

void Decoder::reserve_rows(const ModelOptions& options, int32_t logit_rows) {
  const int32_t rows = options.batch_tokens_max;
  batch_.reserve({.rows = rows,
                  .logit_rows = options.logits_max,
                  .context_tokens = config_.context_tokens,
                  .vocabulary = config_.vocabulary,
                  .groups = kv_.layout.groups.size(),
                  .hidden = true});
  temperatures_.reserve(rows);
  position_ids_.reserve(rows);
  tokens_.reserve(rows);
  all_tokens_.reserve(rows);
  activations_.experts.given.reserve(int64_t{rows} * config_.most_experts().route.used);
  head_.reserve(logit_rows, rows);
  if (config_.dspark) reserve_dspark();
}

Result<void> Decoder::allocate(int32_t logit_rows) {
  const int32_t drafting = draft_slices_max(config_, rows_max_, logit_rows_max_);
  activations_.add_to(arena_, config_, rows_max_, logit_rows, drafting);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  // Writes its zeros: the first prompt would wait for the system to clear the pages. Not those of logits, the last
  // array: few steps want more than a few rows of them.
  backend_.clamp(arena_.floats(), activations_.logits - arena_.floats(), 0, 0);
  if (!config_.most_experts().beside_dense) activations_.experts.shared = activations_.experts.out;
  if (config_.mla) activations_.mla.write_heads(backend_, *config_.mla, rows_max_);
  residual_.prepare(activations_.residual, rows_max_);
  if (compressed_) {
    CAIRN_TRY_VOID(compressed_->prepare(activations_.compressed, config_.compressed_layers(), rows_max_));
  }
  if (engrams_) engrams_->prepare(activations_.engrams, rows_max_);
  return {};
}

kernels::WorkspaceSizes Decoder::work_sizes(const DecoderConfig& model, int32_t rows, int32_t logit_rows) {
  kernels::WorkspaceSizes sizes;
  sizes.sample_rows = logit_rows;
  sizes.inputs.push_back({rows, std::max(model.embedding, model.attended_elements())});
  Residual::add_work(model.residual, rows, sizes);
  FeedForward::add_work(rows, model.dense_inner_elements(), sizes);
  if (model.experts) Experts::add_work(model.most_experts(), rows, sizes);
  if (model.mla) {
    Mla::add_work(*model.mla, rows, model.context_tokens, sizes);
  } else if (model.heads > 0) {
    Attention::add_work(rows, model.heads, model.head_dim(), model.context_tokens, sizes);
  }
  if (model.compressed) CompressedAttention::add_work(*model.compressed, model.compressed_layers(), rows, sizes);
  if (!model.engram.layers.empty()) sizes.inputs.push_back({rows, model.engram.width()});
  if (model.recurrent) RecurrentLayers::add_work(*model.recurrent, rows, sizes);
  if (model.keeps_rows) sizes.inputs.push_back({rows * model.residual.streams(), 2 * model.embedding});
  if (model.dspark) {
    sizes.inputs.push_back({rows, std::ssize(model.dspark->targets) * model.embedding});
    sizes.inputs.push_back({rows, model.embedding + model.dspark->markov_rank});
  }
  if (model.per_layer_input > 0) PerLayerInputs::add_work(model.per_layer_inputs(0, 0), rows, sizes);
  return sizes;
}

int64_t Decoder::workspace_bytes(const DecoderConfig& config, const kernels::Backend& backend,
                                 const ModelOptions& options, LayerRange range) {
  return backend.workspace_bytes(work_sizes(config, options.batch_tokens_max, logit_rows_of(config, options, range)));
}

int64_t Decoder::bytes(const DecoderConfig& config, const kernels::Backend& backend, const ModelOptions& options,
                       LayerRange range) {
  const int32_t logit_rows = logit_rows_of(config, options, range);
  ActivationArena arena;
  DecoderActivations activations;
  const int32_t drafting = draft_slices_max(config, options.batch_tokens_max, options.logits_max);
  activations.add_to(arena, config, options.batch_tokens_max, logit_rows, drafting);
  // Logits and hidden rows are kept a second time in host memory.
  int64_t bytes = arena.bytes() + Head::bytes(config.head(), logit_rows, options.batch_tokens_max) +
                  workspace_bytes(config, backend, options, range);
  if (!config.engram.layers.empty()) bytes += Engrams::bytes(config.engram, options.batch_tokens_max);
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
  if (config_.dspark) {
    keep_main_inputs(config_.layers.size());
    select_output_rows();
    CAIRN_TRY(const LogitsView result, logits());
    follow_dspark(*batch.pool);
    return result;
  }
  CAIRN_TRY(const LogitsView result, logits_of_kept_rows(*batch.pool));
  if (config_.mtp_layer) follow(batch);
  return result;
}

Result<void> Decoder::first_step(const Batch& batch, std::span<float> rows) {
  CAIRN_CHECK(range_.is_first() && !range_.is_last(config_));
  begin_with_tokens(batch);
  CAIRN_CHECK(std::ssize(rows) == rows_ * config_.residual.saved_elements(config_.embedding));
  run_layers(*batch.pool);
  residual_.save(rows, rows_);
  return backend_.finish();
}

Result<void> Decoder::middle_step(const Batch& batch, std::span<float> rows) {
  CAIRN_CHECK(!range_.is_first() && !range_.is_last(config_));
  begin_with(batch, rows);
  run_layers(*batch.pool);
  residual_.save(rows, rows_);
  return backend_.finish();
}

Result<LogitsView> Decoder::last_step(const Batch& batch, std::span<const float> rows) {
  CAIRN_CHECK(!range_.is_first() && range_.is_last(config_));
  begin_with(batch, rows);
  run_layers(*batch.pool);
  return finish(batch);
}

void Decoder::look_up_inputs(const Batch& batch) {
  if (per_layer_inputs_) per_layer_inputs_->look_up(batch.tokens);
  if (!engrams_) return;
  for (size_t i = 0; i < config_.engram.layers.size(); ++i) {
    if (config_.engram.layers[i] < range_.begin) continue;
    const KvPlace place = kv_.engram_classes[i];
    return engrams_->find(batch.pool->view(place.group, place.layer), batch_.slices(place.group), batch.tokens);
  }
}

void Decoder::begin_with_tokens(const Batch& batch) {
  plan(batch);
  look_up_inputs(batch);
  backend_.begin_step();
  float* rows = residual_.begin_step();
  weights_.embedding.look_up(backend_, batch.tokens, config_.embedding_scale, rows);
  if (per_layer_inputs_) per_layer_inputs_->compute(rows);
  if (config_.learned_positions) {
    position_ids_.clear();
    for (const int32_t position : batch_.positions()) position_ids_.push_back(TokenId{position});
    backend_.embed(weights_.positions, position_ids_, 1, residual_.block());
    backend_.add(rows, residual_.block(), rows_ * config_.embedding, 1);
  }
  residual_.spread(rows_);
}

void Decoder::begin_with(const Batch& batch, std::span<const float> rows) {
  plan(batch);
  residual_.begin_step();
  residual_.load(rows, rows_);
  look_up_inputs(batch);
  backend_.begin_step();
  if (!per_layer_inputs_) return;
  float* tokens = activations_.residual.normed;
  weights_.embedding.look_up(backend_, batch.tokens, config_.embedding_scale, tokens);
  per_layer_inputs_->compute(tokens);
}

void Decoder::run_layers(const cache::PagePool& pool) {
  compute_ropes();
  for (auto layer = static_cast<size_t>(range_.begin); layer < static_cast<size_t>(range_.end); ++layer) {
    const LayerConfig& config = config_.layers[layer];
    if (config.engram >= 0) engrams_->add(config.engram, *weights_of(layer).engram, residual_.stream(rows_));
    if (config_.dspark) keep_main_inputs(layer);
    mix(layer, pool);
    if (per_layer_inputs_) per_layer_inputs_->begin_layer(static_cast<int32_t>(layer));
    if (layer + 1 == config_.layers.size() && !has_mtp()) select_output_rows();
    if (config.feed_forward) feed_forward(layer);
    end_layer(layer);
  }
}

void Decoder::plan(const Batch& batch) {
  batch_.plan(batch);
  rows_ = batch_.rows();
  keeps_logits_ = batch.keep_logits;
  kernels::LowRankRows* const adapters = weights_.adapter_rows.get();
  if (adapters != nullptr) {
    adapters->begin();
    for (const BatchSlice& slice : batch.slices) adapters->add(slice.adapter_scales, slice.rows);
  }
  if (compressed_) {
    compressed_->begin_step(batch_, *batch.pool, adapters);
    tokens_.assign(batch.tokens.begin(), batch.tokens.end());
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
  plan_temperatures();
}

void Decoder::plan_temperatures() {
  temperatures_.clear();
  if (config_.temperature_scale == 0) return;
  for (const int32_t position : batch_.positions()) {
    const int32_t stretches = (position + config_.temperature_offset) / config_.temperature_length;
    temperatures_.push_back(1 + config_.temperature_scale * std::log(1 + static_cast<float>(stretches)));
  }
}

void Decoder::compute_ropes() {
  if (compressed_) return compressed_->compute_ropes();
  activations_.ropes.compute(backend_, turns_.empty() ? batch_.positions() : turns_);
}

void Decoder::mix(size_t layer, const cache::PagePool& pool) {
  const LayerConfig& kind = config_.layer(layer);
  if (kind.mixer == Mixer::kNone) return;
  const LayerWeights& weights = weights_of(layer);
  const float* x = residual_.read(weights.attention_norm, weights.attention_streams, rows_);
  residual_.keep_parallel(weights.feed_forward_norm, x, rows_);
  if (kind.mixer == Mixer::kCompressedAttention) attend_compressed(layer, x);
  if (kind.attends()) attention(layer, pool, x);
  if (kind.recurs()) recur(layer, pool, x);
  control_vectors_.after_attention(backend_, layer, residual_.block(), rows_);
  residual_.write(weights.attention_post_norm, rows_);
}

void Decoder::attend_compressed(size_t layer, const float* x) {
  DraftBlocks blocks;
  if (layer >= config_.layers.size() && config_.dspark) {
    blocks = {.slices = block_.row_slices, .rows = config_.dspark->block};
  }
  compressed_->run(config_.layer(layer).compressed, *weights_of(layer).compressed, kv_.compressed[layer], x,
                   residual_.block(), blocks);
}

AttentionStep Decoder::attention_step(size_t layer, const cache::PagePool& pool) const {
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

void Decoder::attention(size_t layer, const cache::PagePool& pool, const float* x) {
  const LayerWeights& weights = weights_of(layer);
  const AttentionStep step = attention_step(layer, pool);
  if (!config_.mla) return weights.attention->run(backend_, activations_.attention, step, x, residual_.block());
  MlaStep rows{.attention = step, .index_keys = {}};
  const KvPlace place = kv_.places[layer];
  if (config_.mla->indexer && config_.layer(layer).indexer) {
    rows.index_keys = pool.view(place.group, place.layer + 1);
  }
  weights.mla->run(backend_, activations_.mla, rows, x, residual_.block());
}

void Decoder::end_layer(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_of(layer);
  if (per_layer_inputs_) {
    float* block = residual_.block();
    weights.input->run(backend_, *per_layer_inputs_, residual_.stream(rows_), rows_, block);
    control_vectors_.after_feed_forward(backend_, layer, block, rows_);
    residual_.write(weights.input_post_norm, rows_);
  }
  if (config_.layer_output_scale) {
    backend_.scale_and_softcap(residual_.stream(rows_), rows_ * config_.embedding, weights.output_scale, 0);
  }
}

// Rows of logits come first.
void Decoder::select_output_rows() {
  const std::span<const int32_t> logits = batch_.logit_rows(), hidden = batch_.hidden_rows();
  residual_.choose(logits, hidden, rows_);
  if (per_layer_inputs_) per_layer_inputs_->choose(logits, hidden);
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose(logits, hidden);
  if (!tokens_.empty()) choose_tokens(logits, hidden);
  rows_ = static_cast<int32_t>(logits.size() + hidden.size());
}

void Decoder::choose_tokens(std::span<const int32_t> first, std::span<const int32_t> then) {
  all_tokens_.swap(tokens_);
  tokens_.clear();
  for (const int32_t row : first) tokens_.push_back(all_tokens_[row]);
  for (const int32_t row : then) tokens_.push_back(all_tokens_[row]);
}

Result<LogitsView> Decoder::logits() {
  return head(weights_.output, residual_.finish(weights_.output_norm, weights_.output_streams, rows_));
}

Result<LogitsView> Decoder::head(const Linear& output, const float* rows) {
  const HeadRows wanted{.logits = static_cast<int32_t>(batch_.logit_rows().size()),
                        .hidden = static_cast<int32_t>(batch_.hidden_rows().size()),
                        .keep_logits = keeps_logits_};
  return head_.run(output, rows, wanted, activations_.logits);
}

EmbeddingAbility Decoder::embedding() const {
  return {.dimensions = static_cast<int32_t>(config_.embedding), .pooling = config_.pooling, .ranks = !labels_.empty()};
}

Result<void> Decoder::read_labels() {
  const int64_t rows = weights_.labels.rows;
  if (rows == 0) return {};
  const int64_t bytes = rows * config_.embedding * static_cast<int64_t>(sizeof(float));
  CAIRN_TRY(const kernels::Buffer buffer, backend_.allocate(bytes));
  const TokenId ids[] = {TokenId{0}, TokenId{1}};
  backend_.embed(weights_.labels, std::span(ids).first(static_cast<size_t>(rows)), 1, buffer.floats());
  labels_.resize(rows * config_.embedding);
  backend_.read(buffer.data(), bytes, labels_.data());
  return backend_.finish();
}

// The first of two outputs means yes: the logit of its share is their difference.
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

}  // namespace cairn::model
