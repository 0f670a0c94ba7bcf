#include "model/parts/compressed_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "cache/page_pool.h"
#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

namespace {

constexpr int64_t kElementBytes = 4;  // float32 and int32 alike

/// The ratios of layers with compressed rows, each once, in the order of the layers.
std::vector<int32_t> ratios_of(std::span<const CompressedLayerConfig> layers) {
  std::vector<int32_t> ratios;
  for (const CompressedLayerConfig& layer : layers) {
    if (layer.ratio > 0 && std::ranges::find(ratios, layer.ratio) == ratios.end()) ratios.push_back(layer.ratio);
  }
  return ratios;
}

}  // namespace

void CompressedAttentionActivations::add_to(ActivationArena& arena, const CompressedAttentionConfig& config,
                                            std::span<const CompressedLayerConfig> layers, int64_t rows) {
  int64_t compressor = 0, index = 0;
  for (const CompressedLayerConfig& layer : layers) {
    if (layer.ratio == 0) continue;
    compressor = std::max<int64_t>(compressor, config.compressor(layer).width());
    if (layer.indexed) index = config.is_v41 ? config.index_dim : config.index_compressor(layer).width();
  }
  arena.add(query_low, rows * config.q_lora_rank);
  arena.add(query, rows * config.outer_dim());
  arena.add(latent, rows * config.head_dim);
  arena.add(attended, rows * config.outer_dim());
  arena.add(grouped, rows * config.output_groups * config.output_rank);
  arena.add(group_numbers, rows * config.output_groups);
  arena.add(values, rows * compressor);
  arena.add(scores, rows * compressor);
  arena.add(index_values, rows * index);
  arena.add(index_scores, rows * index);
  arena.add(compressed, rows * std::max(config.head_dim, config.index_dim));
  arena.add(index_query, index > 0 ? rows * config.index_heads * config.index_dim : 0);
  arena.add(index_weights, index > 0 ? rows * config.index_heads : 0);
  arena.add(chosen, index > 0 ? rows * config.index_rows : 0);
  const auto reads = [](const CompressedLayerConfig& layer) { return layer.candidates == Candidates::kReads; };
  arena.add(candidates, std::ranges::any_of(layers, reads) ? rows * config.candidate_blocks : 0);
  ropes.add_to(arena, config.ropes, rows);
  arena.add(compressed_ropes, std::ssize(ratios_of(layers)) * rows * config.rope_dims);
}

void CompressedAttention::add_work(const CompressedAttentionConfig& config,
                                   std::span<const CompressedLayerConfig> layers, int64_t rows,
                                   kernels::WorkspaceSizes& sizes) {
  const int64_t groups = rows * config.output_groups;
  sizes.inputs.push_back({rows, config.q_lora_rank});
  sizes.inputs.push_back({rows, config.output_groups * config.output_rank});
  sizes.inputs.push_back({groups, config.outer_dim() / config.output_groups});
  if (config.is_v41) sizes.inputs.push_back({rows, config.head_dim});
  sizes.expert_choices = std::max(sizes.expert_choices, groups);
  sizes.experts = std::max<int64_t>(sizes.experts, config.output_groups);
  sizes.mla = {
      .rows = rows, .heads = config.heads, .context_tokens = config.context_tokens, .row_dim = config.head_dim};
  if (!std::ranges::any_of(layers, &CompressedLayerConfig::indexed)) return;
  sizes.mla.choose_heads = config.index_heads;
  sizes.mla.choose_dim = config.index_dim;
}

CompressedAttention::CompressedAttention(kernels::Backend& backend, const CompressedAttentionConfig& config,
                                         bool rounding)
    : backend_(backend), config_(config), rounding_(rounding) {}

Result<void> CompressedAttention::prepare(const CompressedAttentionActivations& activations,
                                          std::span<const CompressedLayerConfig> layers, int64_t rows) {
  activations_ = activations;
  rows_max_ = rows;
  std::vector<int32_t> numbers(rows * config_.output_groups);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i) % config_.output_groups;
  backend_.write(numbers.data(), std::ssize(numbers) * kElementBytes, activations_.group_numbers);
  for (const int32_t ratio : ratios_of(layers)) {
    Completed& each = completed_.emplace_back(ratio);
    each.positions.reserve(rows);
    each.ends.reserve(rows);
  }
  if (!config_.is_v41) return {};
  constexpr int32_t kPair = 2;
  CAIRN_TRY(no_biases_, backend_.allocate(int64_t{kPair} * config_.head_dim * kElementBytes));
  return {};
}

void CompressedAttention::begin_step(const BatchRows& batch, const cache::PagePool& pool,
                                     kernels::LowRankRows* adapters) {
  batch_ = &batch;
  pool_ = &pool;
  adapters_ = adapters;
  rows_ = batch.rows();
  for (Completed& each : completed_) {
    each.positions.clear();
    each.ends.clear();
    for (int32_t row = 0; row < rows_; ++row) {
      const int32_t position = batch.positions()[row];
      if ((position + 1) % each.ratio != 0) continue;
      each.positions.push_back(position + 1 - each.ratio);
      each.ends.push_back(row);
    }
  }
}

void CompressedAttention::compute_ropes() const {
  activations_.ropes.compute(backend_, batch_->positions());
  const RopeConfig& how = config_.ropes[static_cast<size_t>(CompressedRope::kCompressed)];
  float* table = activations_.compressed_ropes;
  for (const Completed& each : completed_) {
    backend_.rope_table(each.positions, how.frequencies, how.magnitude, table);
    table += rows_max_ * how.dims;
  }
}

const float* CompressedAttention::compressed_rope(int32_t ratio) const {
  const auto found = std::ranges::find(completed_, ratio, &Completed::ratio);
  return activations_.compressed_ropes + (found - completed_.begin()) * rows_max_ * config_.rope_dims;
}

std::span<const int32_t> CompressedAttention::completed_ends(int32_t ratio) const {
  return std::ranges::find(completed_, ratio, &Completed::ratio)->ends;
}

void CompressedAttention::turn_last(const float* table, float* x, int64_t rows, int32_t heads, int32_t head_dim) {
  const int32_t dims = config_.rope_dims;
  const kernels::RopeHeads rotated[] = {{x + head_dim - dims, heads}};
  backend_.rope(kernels::RopeStyle::kInterleaved, table, dims, rotated, rows, head_dim);
}

void CompressedAttention::run(const CompressedLayerConfig& config, const CompressedAttentionWeights& weights,
                              const CompressedPlaces& places, const float* x, float* out, const DraftBlocks& blocks) {
  const Layer layer{config, weights, places};
  project(layer, x);
  store_window(places);
  if (config_.is_v41) {
    if (config.makes_rows) make_shared_rows(layer);
    if (config.indexed) choose(layer);
  } else {
    if (config.ratio > 0) compress(layer);
    if (config.indexed) compress_index(layer);
  }
  attend(layer, blocks);

  const CompressedRope back = config.ratio > 0 ? CompressedRope::kCompressedBack : CompressedRope::kWindowBack;
  turn_last(rope(back), activations_.attended, rows_, config_.heads, config_.head_dim);
  const kernels::MatmulTarget groups[] = {weights.output_groups.to(activations_.grouped)};
  backend_.grouped_matmul(groups, activations_.attended, rows_, activations_.group_numbers, config_.output_groups,
                          true);
  const kernels::MatmulTarget output[] = {weights.output.to(out)};
  backend_.matmul(output, activations_.grouped, rows_);
}

void CompressedAttention::store_keys(const CompressedAttentionWeights& weights, const CompressedPlaces& places,
                                     const float* x) {
  const kernels::MatmulTarget latent[] = {weights.key_value.to(activations_.latent)};
  backend_.matmul(latent, x, rows_);
  weights.key_value_norm.run(backend_, activations_.latent, rows_, activations_.latent);
  turn_last(rope(CompressedRope::kWindow), activations_.latent, rows_, 1, config_.head_dim);
  store_window(places);
}

kernels::KvView CompressedAttention::view(const KvPlace& place) const { return pool_->view(place.group, place.layer); }

void CompressedAttention::store(const KvPlace& place, const float* rows) {
  backend_.mla()->store_rows(view(place), batch_->slices(place.group), rows);
}

// Everything that is read from the block's input, which is quantised once, then what is read from the small query.
void CompressedAttention::project(const Layer& of, const float* x) {
  const CompressedLayerConfig& layer = of.config;
  const CompressedAttentionWeights& weights = of.weights;
  std::array<kernels::MatmulTarget, 7> from_input;
  size_t count = 0;
  from_input[count++] = weights.query_down.to(activations_.query_low);
  from_input[count++] = weights.key_value.to(activations_.latent);
  if (config_.is_v41) {
    if (layer.makes_rows) {
      float* values = layer.ratio == 1 ? activations_.compressed : activations_.values;
      from_input[count++] = weights.compressor->values.to(values);
    }
    if (layer.makes_rows && layer.ratio > 1) {
      from_input[count++] = weights.compressor->scores.to(activations_.scores);
    }
    if (layer.indexed) from_input[count++] = weights.index_weights.to(activations_.index_weights);
  } else if (layer.ratio > 0) {
    from_input[count++] = weights.compressor->values.to(activations_.values);
    from_input[count++] = weights.compressor->scores.to(activations_.scores);
  }
  if (layer.indexed && !config_.is_v41) {
    from_input[count++] = weights.index_compressor->values.to(activations_.index_values);
    from_input[count++] = weights.index_compressor->scores.to(activations_.index_scores);
    from_input[count++] = weights.index_weights.to(activations_.index_weights);
  }
  backend_.matmul(std::span(from_input).first(count), x, rows_);

  const float epsilon = config_.norm.epsilon;
  weights.query_norm.run(backend_, activations_.query_low, rows_, activations_.query_low);
  const kernels::MatmulTarget from_query[] = {weights.query_up.to(activations_.query),
                                              weights.index_query.to(activations_.index_query)};
  backend_.matmul(std::span(from_query).first(layer.indexed ? 2 : 1), activations_.query_low, rows_);

  const int32_t heads = config_.heads, dim = config_.head_dim;
  const float* table = rope(layer.ratio > 0 ? CompressedRope::kCompressed : CompressedRope::kWindow);
  if (!config_.is_v41) {
    backend_.rms_norm(activations_.query, nullptr, epsilon, int64_t{rows_} * heads, dim, activations_.query);
  }
  turn_last(table, activations_.query, rows_, heads, dim);
  weights.key_value_norm.run(backend_, activations_.latent, rows_, activations_.latent);
  turn_last(table, activations_.latent, rows_, 1, dim);
}

void CompressedAttention::store_window(const CompressedPlaces& places) {
  const int32_t dim = config_.head_dim;
  if (rounding_ && config_.is_v41) {
    backend_.deepseek41()->round_rows(kernels::SimulatedRounding::kFp8Blocks32, activations_.latent, rows_, dim);
  } else if (rounding_) {
    backend_.compressor()->round_fp8(activations_.latent, rows_, dim, dim - config_.rope_dims);
  }
  store(places.window, activations_.latent);
}

void CompressedAttention::compress_rows(const kernels::CompressorParams& params, const CompressorWeights& weights,
                                        const KvPlace& values, const KvPlace& scores) {
  CAIRN_DCHECK(values.group == scores.group);
  kernels::CompressorParams with_biases = params;
  with_biases.biases = weights.biases.floats();
  backend_.compressor()->compress(with_biases, view(values), view(scores), batch_->slices(values.group),
                                  activations_.compressed);
  const int64_t rows = std::ssize(completed_ends(params.ratio));
  weights.norm.run(backend_, activations_.compressed, rows, activations_.compressed);
  turn_last(compressed_rope(params.ratio), activations_.compressed, rows, 1, params.dim);
}

void CompressedAttention::compress(const Layer& layer) {
  const CompressedPlaces& places = layer.places;
  store(places.values, activations_.values);
  store(places.scores, activations_.scores);
  const kernels::CompressorParams params = config_.compressor(layer.config);
  compress_rows(params, *layer.weights.compressor, places.values, places.scores);
  if (rounding_) {
    backend_.compressor()->round_fp8(activations_.compressed, std::ssize(completed_ends(params.ratio)), params.dim,
                                     params.dim - config_.rope_dims);
  }
  store(places.compressed, activations_.compressed);
}

void CompressedAttention::compress_index(const Layer& layer) {
  const CompressedPlaces& places = layer.places;
  store(places.index_values, activations_.index_values);
  store(places.index_scores, activations_.index_scores);
  const kernels::CompressorParams params = config_.index_compressor(layer.config);
  compress_rows(params, *layer.weights.index_compressor, places.index_values, places.index_scores);
  // The transform leaves products as they are: it is there for the rounding.
  if (rounding_)
    backend_.compressor()->hadamard_fp4(activations_.compressed, std::ssize(completed_ends(params.ratio)), params.dim);
  store(places.index, activations_.compressed);

  turn_last(rope(CompressedRope::kCompressed), activations_.index_query, rows_, config_.index_heads, params.dim);
  if (rounding_) {
    backend_.compressor()->hadamard_fp4(activations_.index_query, int64_t{rows_} * config_.index_heads, params.dim);
  }
}

// The key of a row in the index is made from the row before it is turned.
void CompressedAttention::make_shared_rows(const Layer& layer) {
  const CompressedPlaces& places = layer.places;
  const CompressedAttentionWeights& weights = layer.weights;
  kernels::CompressorParams params = config_.compressor(layer.config);
  if (params.ratio > 1) {
    store(places.values, activations_.values);
    store(places.scores, activations_.scores);
    params.biases = no_biases_.floats();
    backend_.compressor()->compress(params, view(places.values), view(places.scores),
                                    batch_->slices(places.values.group), activations_.compressed);
  }
  const int64_t rows = std::ssize(completed_ends(params.ratio));
  if (rows == 0) return;
  const int32_t index_dim = config_.index_dim;
  weights.compressor->norm.run(backend_, activations_.compressed, rows, activations_.compressed);
  const kernels::MatmulTarget key[] = {weights.index_compressor->values.to(activations_.index_values)};
  if (adapters_ != nullptr) adapters_->choose(completed_ends(params.ratio), {});
  backend_.matmul(key, activations_.compressed, static_cast<int32_t>(rows));
  if (adapters_ != nullptr) adapters_->choose_all();
  weights.index_compressor->norm.run(backend_, activations_.index_values, rows, activations_.index_values);
  turn_last(compressed_rope(params.ratio), activations_.index_values, rows, 1, index_dim);
  turn_last(compressed_rope(params.ratio), activations_.compressed, rows, 1, params.dim);
  if (rounding_) {
    kernels::Deepseek41Operations& rounding = *backend_.deepseek41();
    rounding.round_rows(kernels::SimulatedRounding::kFp4Blocks32, activations_.index_values, rows, index_dim);
    rounding.round_rows(kernels::SimulatedRounding::kFp4Blocks16, activations_.compressed, rows, params.dim);
  }
  store(places.index, activations_.index_values);
  store(places.compressed, activations_.compressed);
}

// Layers without an index read what the last one before them has chosen.
void CompressedAttention::choose(const Layer& layer) {
  const CompressedLayerConfig& config = layer.config;
  const KvPlace& index = layer.places.index;
  const int32_t heads = config_.index_heads, dim = config_.index_dim;
  turn_last(rope(CompressedRope::kCompressed), activations_.index_query, rows_, heads, dim);
  if (rounding_) {
    backend_.deepseek41()->round_rows(kernels::SimulatedRounding::kFp4Blocks32, activations_.index_query,
                                      int64_t{rows_} * heads, dim);
  }
  kernels::ChooseParams params{.heads = heads, .most = config_.index_rows};
  if (config.candidates != Candidates::kNone) {
    params.candidates = {.rows = config_.candidate_rows,
                         .most = config_.candidate_blocks,
                         .find = config.candidates == Candidates::kFinds,
                         .blocks = activations_.candidates};
  }
  backend_.mla()->select_topk(params, view(index), batch_->slices(index.group), activations_.index_query,
                              activations_.index_weights, activations_.chosen);
}

// One softmax over the last positions as they are and the compressed rows of all before; the two overlap.
void CompressedAttention::attend(const Layer& layer, const DraftBlocks& blocks) {
  const CompressedLayerConfig& config = layer.config;
  const CompressedPlaces& places = layer.places;
  std::array<kernels::RowSource, 2> sources;
  size_t count = 0;
  const auto add = [&](const KvPlace& place) -> kernels::RowSource& {
    kernels::RowSource& source = sources[count++];
    source.kv = view(place);
    source.slices = batch_->slices(place.group);
    return source;
  };
  kernels::RowSource& window = add(places.window);
  window.window = config_.window;
  if (blocks.rows > 0) {
    window.window += blocks.rows;
    window.slices = blocks.slices;
  }
  if (config.ratio > 0) {
    kernels::RowSource& compressed = add(places.compressed);
    if (config.indexed || config_.is_v41) {
      compressed.chosen = activations_.chosen;
      compressed.chosen_max = config_.index_rows;
    }
    if (config.indexed && !config_.is_v41) {
      backend_.mla()->select_topk({config_.index_heads, config_.index_rows}, view(places.index),
                                  batch_->slices(places.index.group), activations_.index_query,
                                  activations_.index_weights, activations_.chosen);
    }
  }
  kernels::RowAttentionParams params;
  params.heads = config_.heads;
  params.value_dim = config_.head_dim;
  params.scale = 1 / std::sqrt(static_cast<float>(config_.head_dim));
  params.sinks = layer.weights.sinks.floats();
  backend_.mla()->attend_rows(params, std::span(sources).first(count), activations_.query, activations_.attended);
}

}  // namespace cairn::model
