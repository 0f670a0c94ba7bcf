#include "model/deepseek4/runner.h"

#include <algorithm>
#include <utility>

#include "kernels/backend.h"

namespace cairn::deepseek4 {
namespace {

/// The most experts of all layers, those that draft included.
MoeConfig most_experts(const ModelConfig& model) {
  MoeConfig most = model.experts;
  if (!model.dspark) return most;
  const RouteParams& drafting = model.dspark->experts.route;
  most.route.experts = std::max(most.route.experts, drafting.experts);
  most.route.used = model.experts_used();
  return most;
}

/// The tables of the layers with engrams.
std::vector<const gguf::Tensor*> tables_of(const ModelConfig& model, const ModelWeights& weights) {
  std::vector<const gguf::Tensor*> tables;
  for (const int32_t layer : model.engram.layers) tables.push_back(weights.layers[layer].engram->table);
  return tables;
}

}  // namespace

ModelRunner::ModelRunner(ModelConfig config, ModelWeights weights, Backend& backend, const ModelOptions& options)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      rows_max_(options.batch_tokens_max),
      logit_rows_max_(options.logits_max),
      streams_(backend, config_.hyper_connections()),
      engrams_(backend, config_.engram, tables_of(config_, weights_)),
      attention_(backend, config_, options.simulate_rounding),
      head_(backend, config_.head()) {
  kv_layout_ = kv_layout_of(config_, options.kv_type, places_);
}

void ModelRunner::Activations::add_to(ActivationArena& arena, const ModelConfig& model, const ModelOptions& options) {
  const int64_t rows = options.batch_tokens_max, width = model.embedding;
  const MoeConfig moe = most_experts(model);
  streams.add_to(arena, model.hyper_connections(), rows);
  arena.add(input, rows * width);
  arena.add(block, rows * width);
  attention.add_to(arena, model, model.attention_layers(), rows);
  engrams.add_to(arena, model.engram, rows);
  experts.add_to(arena, moe, rows, width);
  feed_forward.add_to(arena, rows, moe.inner(), moe.inner());
  arena.add(pairs, model.has_mtp ? rows * model.streams * 2 * width : 0);
  arena.add(logits, options.logits_max * model.vocabulary);
  if (!model.dspark) return;
  const DsparkConfig& dspark = *model.dspark;
  const int64_t drafting = draft_slices_max(model, options), block_rows = drafting * dspark.block;
  arena.add(main_inputs, rows * std::ssize(dspark.targets) * width);
  arena.add(block_hidden, block_rows * width);
  arena.add(block_logits, block_rows * model.vocabulary);
  arena.add(draft_logits, drafting * model.vocabulary);
  arena.add(markov_rows, drafting * dspark.markov_rank);
  arena.add(confidence_inputs, drafting * (width + dspark.markov_rank));
  arena.add(confidence, drafting);
}

WorkspaceSizes ModelRunner::work_sizes(const ModelConfig& model, const ModelOptions& options) {
  const int32_t rows = options.batch_tokens_max;
  WorkspaceSizes sizes;
  sizes.sample_rows = options.logits_max;
  sizes.inputs.push_back({rows, model.streams * model.embedding});
  CompressedAttention::add_work(model, model.attention_layers(), rows, sizes);
  Experts::add_work(most_experts(model), rows, sizes);
  if (!model.engram.layers.empty()) sizes.inputs.push_back({rows, model.engram.width()});
  if (model.has_mtp) sizes.inputs.push_back({rows * model.streams, 2 * model.embedding});
  if (model.dspark) {
    sizes.inputs.push_back({rows, std::ssize(model.dspark->targets) * model.embedding});
    sizes.inputs.push_back({rows, model.embedding + model.dspark->markov_rank});
  }
  return sizes;
}

int64_t ModelRunner::bytes(const ModelConfig& config, const Backend& backend, const ModelOptions& options) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, options);
  return arena.bytes() + Engrams::bytes(config.engram, options.batch_tokens_max) +
         Head::bytes(config.head(), options.logits_max, options.batch_tokens_max) +
         backend.workspace_bytes(work_sizes(config, options));
}

Result<void> ModelRunner::allocate(const ModelOptions& options) {
  activations_.add_to(arena_, config_, options);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  CAIRN_TRY_VOID(attention_.prepare(activations_.attention, config_.attention_layers(), rows_max_));
  tokens_.reserve(rows_max_);
  all_tokens_.reserve(rows_max_);
  batch_.reserve({.rows = rows_max_,
                  .logit_rows = logit_rows_max_,
                  .context_tokens = config_.context_tokens,
                  .vocabulary = config_.vocabulary,
                  .groups = kv_layout_.groups.size(),
                  .hidden = true});
  streams_.prepare(activations_.streams, rows_max_);
  engrams_.prepare(activations_.engrams, rows_max_);
  activations_.experts.given.reserve(int64_t{rows_max_} * config_.experts.route.used);
  activations_.experts.shared = activations_.experts.out;  // the chosen ones are combined by then
  head_.reserve(logit_rows_max_, rows_max_);
  if (config_.dspark) reserve_dspark(options);
  return {};
}

Result<std::unique_ptr<Runner>> ModelRunner::create(ModelConfig config, ModelWeights weights, Backend& backend,
                                                    const ModelOptions& options) {
  if (backend.mla() == nullptr || backend.hyper_connections() == nullptr || backend.compressor() == nullptr) {
    return fail(Code::kUnsupported, "architecture \"deepseek4\" does not run on {}", backend.description());
  }
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(config), std::move(weights), backend, options));
  const ModelConfig& model = runner->config_;
  CAIRN_TRY_VOID(runner->allocate(options));
  CAIRN_TRY(runner->control_vectors_,
            ControlVectors::load(options.control_vectors, static_cast<int64_t>(model.main_layers()), model.embedding,
                                 backend));
  CAIRN_TRY_VOID(backend.reserve(work_sizes(model, options)));
  return runner;
}

Result<LogitsView> ModelRunner::step(const Batch& batch) {
  plan(batch);
  if (!config_.engram.layers.empty()) {
    const KvPlace& place = places_.front().classes;
    engrams_.find(batch.pool->view(place.group, place.layer), batch_.slices(place.group), batch.tokens);
  }
  backend_.begin_step();
  attention_.compute_ropes();
  begin_streams(batch.tokens);
  const size_t layers = config_.main_layers();
  const bool drafts = config_.drafts();
  for (size_t layer = 0; layer < layers; ++layer) {
    if (const int32_t engram = config_.layers[layer].engram; engram >= 0) {
      engrams_.add(engram, *weights_.layers[layer].engram, streams_.streams());
    }
    if (config_.dspark) keep_main_inputs(layer);
    attention(layer);
    if (layer + 1 == layers && !drafts) select_output_rows();
    feed_forward(layer);
  }
  if (!drafts) return logits(weights_.output_streams, weights_.output_norm);
  if (config_.dspark) {
    keep_main_inputs(layers);
  } else {
    store_streams(*batch.pool);
  }
  select_output_rows();
  CAIRN_TRY(const LogitsView result, logits(weights_.output_streams, weights_.output_norm));
  if (config_.dspark) {
    follow_dspark();
  } else {
    follow(batch);
  }
  return result;
}

void ModelRunner::plan(const Batch& batch) {
  batch_.plan(batch);
  rows_ = batch_.rows();
  streams_.begin_step();
  keeps_logits_ = batch.keep_logits;
  if (LowRankRows* const adapters = weights_.adapter_rows.get()) {
    adapters->begin();
    for (const BatchSlice& slice : batch.slices) adapters->add(slice.adapter_scales, slice.rows);
  }
  attention_.begin_step(batch_, *batch.pool, weights_.adapter_rows.get());
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
}

void ModelRunner::store_streams(const PagePool& pool) {
  const KvPlace& place = places_[config_.main_layers()].streams;
  backend_.mla()->store_rows(pool.view(place.group, place.layer), batch_.slices(place.group), streams_.streams());
}

void ModelRunner::begin_streams(std::span<const TokenId> tokens) {
  weights_.embedding.look_up(backend_, tokens, 1, activations_.input);
  streams_.begin(activations_.input, rows_);
}

void ModelRunner::attention(size_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  streams_.read(weights.attention_streams, weights.attention_norm, rows_, activations_.input);
  DraftBlocks blocks;
  if (config_.dspark && layer >= config_.main_layers()) {
    blocks = {.slices = block_row_slices_, .rows = config_.dspark->block};
  }
  attention_.run(config_.layers[layer], weights.attention, places_[layer], activations_.input, activations_.block,
                 blocks);
  control_vectors_.after_attention(backend_, layer, activations_.block, rows_);
  streams_.write(activations_.block, rows_);
}

void ModelRunner::feed_forward(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_.layers[layer];
  streams_.read(weights.feed_forward_streams, weights.feed_forward_norm, rows_, activations_.input);
  weights.experts->route(backend_, activations_.experts, activations_.input, rows_, tokens_);
  weights.experts->run(backend_, activations_.feed_forward, activations_.experts, activations_.input, rows_,
                       activations_.block);
  control_vectors_.after_feed_forward(backend_, layer, activations_.block, rows_);
  streams_.write(activations_.block, rows_);
}

// Rows of logits come first.
void ModelRunner::select_output_rows() {
  const std::span<const int32_t> logits = batch_.logit_rows(), hidden = batch_.hidden_rows();
  streams_.choose(logits, hidden);
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose(logits, hidden);
  all_tokens_.swap(tokens_);
  tokens_.clear();
  for (const int32_t row : logits) tokens_.push_back(all_tokens_[row]);
  for (const int32_t row : hidden) tokens_.push_back(all_tokens_[row]);
  rows_ = static_cast<int32_t>(tokens_.size());
}

Result<LogitsView> ModelRunner::logits(const StreamWeights& weights, const Norm& norm) {
  if (rows_ > 0) {
    streams_.collapse(weights, rows_, activations_.input);
    norm.run(backend_, activations_.input, rows_, activations_.input);
  }
  const HeadRows rows{.logits = static_cast<int32_t>(batch_.logit_rows().size()),
                      .hidden = static_cast<int32_t>(batch_.hidden_rows().size()),
                      .keep_logits = keeps_logits_};
  return head_.run(weights_.output, activations_.input, rows, activations_.logits);
}

}  // namespace cairn::deepseek4
