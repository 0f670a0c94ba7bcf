#include "model/deepseek4/runner.h"

#include <algorithm>
#include <utility>

#include "kernels/backend.h"

namespace cairn::deepseek4 {
namespace {

constexpr int64_t kElementBytes = 4;  // float32 and int32 alike
/// Of all layers, those that draft included.
MoeConfig most_experts(const ModelConfig& model) {
  MoeConfig most = model.experts;
  if (!model.dspark) return most;
  const RouteParams& drafting = model.dspark->experts.route;
  most.route.experts = std::max(most.route.experts, drafting.experts);
  most.route.used = model.experts_used();
  return most;
}

/// Of the layers with engrams.
std::vector<const gguf::Tensor*> tables_of(const ModelConfig& model, const ModelWeights& weights) {
  std::vector<const gguf::Tensor*> tables;
  for (const int32_t layer : model.engram.layers) tables.push_back(weights.layers[layer].engram->table);
  return tables;
}

}  // namespace

ModelRunner::ModelRunner(ModelConfig config, ModelWeights weights, Backend& backend, const ModelOptions& options)
    : description_(std::move(config)),
      weights_(std::move(weights)),
      backend_(backend),
      latent_(*backend.latent()),
      compressor_(*backend.compressor()),
      rows_max_(options.batch_tokens_max),
      logit_rows_max_(options.logits_max),
      rounding_(options.simulate_rounding),
      streams_(backend, description_.hyper_connections()),
      engrams_(backend, description_.engram, tables_of(description_, weights_)),
      head_(backend, description_.head()) {
  kv_layout_ = kv_layout_of(description_, options.kv_type, places_);
}

void ModelRunner::Activations::add_to(ActivationArena& arena, const ModelConfig& model, const ModelOptions& options) {
  const int64_t rows = options.batch_tokens_max, width = model.embedding, outer = model.outer_dim();
  const MoeConfig moe = most_experts(model);
  int64_t ratios = 0, compressor = 0, index = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerConfig& layer = model.layers[i];
    if (layer.ratio == 0) continue;
    const auto same = [&layer](const LayerConfig& other) { return other.ratio == layer.ratio; };
    const auto before = std::span(model.layers).first(i);
    if (std::ranges::none_of(before, same)) ++ratios;
    compressor = std::max<int64_t>(compressor, model.compressor(layer).width());
    if (layer.indexed) index = model.is_v41 ? model.index_dim : model.index_compressor(layer).width();
  }
  streams.add_to(arena, model.hyper_connections(), rows);
  arena.add(input, rows * width);
  arena.add(block, rows * width);
  arena.add(query_low, rows * model.q_lora_rank);
  arena.add(query, rows * outer);
  arena.add(latent, rows * model.head_dim);
  arena.add(attended, rows * outer);
  arena.add(grouped, rows * model.output_groups * model.output_rank);
  arena.add(group_numbers, rows * model.output_groups);
  arena.add(values, rows * compressor);
  arena.add(scores, rows * compressor);
  arena.add(index_values, rows * index);
  arena.add(index_scores, rows * index);
  arena.add(compressed, rows * std::max(model.head_dim, model.index_dim));
  arena.add(index_query, index > 0 ? rows * model.index_heads * model.index_dim : 0);
  arena.add(index_weights, index > 0 ? rows * model.index_heads : 0);
  arena.add(chosen, index > 0 ? rows * model.index_rows : 0);
  const auto reads = [](const LayerConfig& layer) { return layer.candidates == Candidates::kReads; };
  arena.add(candidates, std::ranges::any_of(model.layers, reads) ? rows * model.candidate_blocks : 0);
  engrams.add_to(arena, model.engram, rows);
  experts.add_to(arena, moe, rows, width);
  feed_forward.add_to(arena, rows, moe.inner(), moe.inner());
  ropes.add_to(arena, model.ropes, rows);
  arena.add(compressed_ropes, ratios * rows * model.rope_dims);
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
  const int64_t groups = int64_t{rows} * model.output_groups;
  sizes.inputs = {{rows, model.streams * model.embedding},
                  {rows, model.q_lora_rank},
                  {rows, model.output_groups * model.output_rank},
                  {groups, model.outer_dim() / model.output_groups}};
  sizes.expert_choices = groups;
  sizes.experts = model.output_groups;
  Experts::add_work(most_experts(model), rows, sizes);
  if (!model.engram.layers.empty()) sizes.inputs.push_back({rows, model.engram.width()});
  if (model.is_v41) sizes.inputs.push_back({rows, model.head_dim});
  if (model.has_mtp) sizes.inputs.push_back({rows * model.streams, 2 * model.embedding});
  if (model.dspark) {
    sizes.inputs.push_back({rows, std::ssize(model.dspark->targets) * model.embedding});
    sizes.inputs.push_back({rows, model.embedding + model.dspark->markov_rank});
  }
  sizes.latent = {
      .rows = rows, .heads = model.heads, .context_tokens = model.context_tokens, .row_dim = model.head_dim};
  if (std::ranges::any_of(model.layers, &LayerConfig::indexed)) {
    sizes.latent.choose_heads = model.index_heads;
    sizes.latent.choose_dim = model.index_dim;
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
  activations_.add_to(arena_, description_, options);
  CAIRN_TRY_VOID(arena_.allocate(backend_));
  std::vector<int32_t> numbers(int64_t{rows_max_} * description_.output_groups);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i) % description_.output_groups;
  backend_.write(numbers.data(), std::ssize(numbers) * kElementBytes, activations_.group_numbers);
  for (const LayerConfig& layer : description_.layers) {
    const auto same = [&layer](const Completed& other) { return other.ratio == layer.ratio; };
    if (layer.ratio > 0 && std::ranges::none_of(completed_, same)) completed_.push_back({layer.ratio, {}, {}});
  }
  for (Completed& each : completed_) {
    each.positions.reserve(rows_max_);
    each.ends.reserve(rows_max_);
  }
  tokens_.reserve(rows_max_);
  all_tokens_.reserve(rows_max_);
  batch_.reserve({.rows = rows_max_,
                  .logit_rows = logit_rows_max_,
                  .context_tokens = description_.context_tokens,
                  .vocabulary = description_.vocabulary,
                  .groups = kv_layout_.groups.size(),
                  .hidden = true});
  streams_.prepare(activations_.streams, rows_max_);
  engrams_.prepare(activations_.engrams, rows_max_);
  activations_.experts.given.reserve(int64_t{rows_max_} * description_.experts.route.used);
  activations_.experts.shared = activations_.experts.out;  // the chosen ones are combined by then
  head_.reserve(logit_rows_max_, rows_max_);
  if (description_.dspark) reserve_dspark(options);
  if (!description_.is_v41) return {};
  constexpr int32_t kPair = 2;
  CAIRN_TRY(no_biases_, backend_.allocate(int64_t{kPair} * description_.head_dim * kElementBytes));
  return {};
}

Result<std::unique_ptr<Runner>> ModelRunner::create(ModelConfig config, ModelWeights weights, Backend& backend,
                                                    const ModelOptions& options) {
  if (backend.latent() == nullptr || backend.streams() == nullptr || backend.compressor() == nullptr) {
    return fail(Code::kUnsupported, "architecture \"deepseek4\" does not run on {}", backend.description());
  }
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(config), std::move(weights), backend, options));
  const ModelConfig& model = runner->description_;
  CAIRN_TRY_VOID(runner->allocate(options));
  CAIRN_TRY(runner->directions_, ControlVectors::load(options.directions, static_cast<int64_t>(model.main_layers()),
                                                      model.embedding, backend));
  CAIRN_TRY_VOID(backend.reserve(work_sizes(model, options)));
  return runner;
}

Result<LogitsView> ModelRunner::step(const Batch& batch) {
  plan(batch);
  if (!description_.engram.layers.empty()) {
    const KvPlace& place = places_.front().classes;
    engrams_.find(batch.pool->view(place.group, place.layer), batch_.slices(place.group), batch.tokens);
  }
  backend_.begin_step();
  compute_ropes();
  begin_streams(batch.tokens);
  const size_t layers = description_.main_layers();
  const bool drafts = description_.drafts();
  for (size_t layer = 0; layer < layers; ++layer) {
    if (const int32_t engram = description_.layers[layer].engram; engram >= 0) {
      engrams_.add(engram, *weights_.layers[layer].engram, streams_.streams());
    }
    if (description_.dspark) keep_main_inputs(layer);
    attention(layer, *batch.pool);
    if (layer + 1 == layers && !drafts) select_output_rows();
    feed_forward(layer);
  }
  if (!drafts) return logits(weights_.output_streams, weights_.output_norm);
  if (description_.dspark) {
    keep_main_inputs(layers);
  } else {
    store(places_.back().streams, *batch.pool, streams_.streams());
  }
  select_output_rows();
  CAIRN_TRY(const LogitsView result, logits(weights_.output_streams, weights_.output_norm));
  if (description_.dspark) {
    follow_dspark(batch);
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
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  for (Completed& each : completed_) {
    each.positions.clear();
    each.ends.clear();
    for (int32_t row = 0; row < rows_; ++row) {
      const int32_t position = batch_.positions()[row];
      if ((position + 1) % each.ratio != 0) continue;
      each.positions.push_back(position + 1 - each.ratio);
      each.ends.push_back(row);
    }
  }
}

const float* ModelRunner::rope(Rope which) const { return activations_.ropes.table(static_cast<int32_t>(which)); }

const float* ModelRunner::compressed_rope(int32_t ratio) const {
  const auto found = std::ranges::find(completed_, ratio, &Completed::ratio);
  return activations_.compressed_ropes + (found - completed_.begin()) * rows_max_ * description_.rope_dims;
}

int64_t ModelRunner::completed(int32_t ratio) const { return std::ssize(completed_ends(ratio)); }

std::span<const int32_t> ModelRunner::completed_ends(int32_t ratio) const {
  return std::ranges::find(completed_, ratio, &Completed::ratio)->ends;
}

void ModelRunner::compute_ropes() {
  activations_.ropes.compute(backend_, batch_.positions());
  const RopeConfig& how = description_.ropes[static_cast<size_t>(Rope::kCompressed)];
  float* table = activations_.compressed_ropes;
  for (const Completed& each : completed_) {
    backend_.rope_table(each.positions, how.frequencies, how.magnitude, table);
    table += int64_t{rows_max_} * how.dims;
  }
}

void ModelRunner::turn_last(const float* table, float* x, int64_t rows, int32_t heads, int32_t head_dim) {
  const int32_t dims = description_.rope_dims;
  const RopeHeads rotated[] = {{x + head_dim - dims, heads}};
  backend_.rope(RopeStyle::kInterleaved, table, dims, rotated, rows, head_dim);
}

void ModelRunner::begin_streams(std::span<const TokenId> tokens) {
  weights_.embedding.look_up(backend_, tokens, 1, activations_.input);
  streams_.begin(activations_.input, rows_);
}

void ModelRunner::feed_forward(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_.layers[layer];
  streams_.read(weights.feed_forward_streams, weights.feed_forward_norm, rows_, activations_.input);
  weights.experts.route(backend_, activations_.experts, activations_.input, rows_, tokens_);
  weights.experts.run(backend_, activations_.feed_forward, activations_.experts, activations_.input, rows_,
                      activations_.block);
  directions_.after_feed_forward(backend_, layer, activations_.block, rows_);
  streams_.write(activations_.block, rows_);
}

// Those of logits first.
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
