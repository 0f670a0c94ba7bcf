#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/deepseek4/runner.h"

// The attention block of ModelRunner.
namespace cairn::deepseek4 {

void ModelRunner::attention(size_t layer, const PagePool& pool) {
  const LayerWeights& weights = weights_.layers[layer];
  const LayerConfig& config = description_.layers[layer];
  streams_.read(weights.attention_streams, weights.attention_norm, rows_, activations_.input);
  project(config, weights);
  store_window(layer, pool);
  if (description_.is_v41) {
    if (config.makes_rows) make_shared_rows(layer, pool);
    if (config.indexed) choose(layer, pool);
  } else {
    if (config.ratio > 0) compress(layer, pool);
    if (config.indexed) compress_index(layer, pool);
  }
  attend(layer, pool);

  const Rope back = config.ratio > 0 ? Rope::kCompressedBack : Rope::kWindowBack;
  turn_last(rope(back), activations_.attended, rows_, description_.heads, description_.head_dim);
  const MatmulTarget groups[] = {weights.output_groups.to(activations_.grouped)};
  backend_.grouped_matmul(groups, activations_.attended, rows_, activations_.group_numbers, description_.output_groups,
                          true);
  const MatmulTarget output[] = {weights.output.to(activations_.block)};
  backend_.matmul(output, activations_.grouped, rows_);
  directions_.after_attention(backend_, layer, activations_.block, rows_);
  streams_.write(activations_.block, rows_);
}

// Everything that is read from the block's input, which is quantised once, then what is read from the small query.
void ModelRunner::project(const LayerConfig& layer, const LayerWeights& weights) {
  std::array<MatmulTarget, 7> from_input;
  size_t count = 0;
  from_input[count++] = weights.query_down.to(activations_.query_low);
  from_input[count++] = weights.key_value.to(activations_.latent);
  if (description_.is_v41) {
    if (layer.makes_rows) {
      float* values = layer.ratio == 1 ? activations_.compressed : activations_.values;
      from_input[count++] = weights.compressor.values.to(values);
    }
    if (layer.makes_rows && layer.ratio > 1) {
      from_input[count++] = weights.compressor.scores.to(activations_.scores);
    }
    if (layer.indexed) from_input[count++] = weights.index_weights.to(activations_.index_weights);
  } else if (layer.ratio > 0) {
    from_input[count++] = weights.compressor.values.to(activations_.values);
    from_input[count++] = weights.compressor.scores.to(activations_.scores);
  }
  if (layer.indexed && !description_.is_v41) {
    from_input[count++] = weights.index_compressor.values.to(activations_.index_values);
    from_input[count++] = weights.index_compressor.scores.to(activations_.index_scores);
    from_input[count++] = weights.index_weights.to(activations_.index_weights);
  }
  backend_.matmul(std::span(from_input).first(count), activations_.input, rows_);

  const float epsilon = description_.norm.epsilon;
  weights.query_norm.run(backend_, activations_.query_low, rows_, activations_.query_low);
  const MatmulTarget from_query[] = {weights.query_up.to(activations_.query),
                                     weights.index_query.to(activations_.index_query)};
  backend_.matmul(std::span(from_query).first(layer.indexed ? 2 : 1), activations_.query_low, rows_);

  const int32_t heads = description_.heads, dim = description_.head_dim;
  const float* table = rope(layer.ratio > 0 ? Rope::kCompressed : Rope::kWindow);
  if (!description_.is_v41) {
    backend_.rms_norm(activations_.query, nullptr, epsilon, int64_t{rows_} * heads, dim, activations_.query);
  }
  turn_last(table, activations_.query, rows_, heads, dim);
  weights.key_value_norm.run(backend_, activations_.latent, rows_, activations_.latent);
  turn_last(table, activations_.latent, rows_, 1, dim);
}

void ModelRunner::store_window(size_t layer, const PagePool& pool) {
  const int32_t dim = description_.head_dim;
  if (rounding_ && description_.is_v41) {
    backend_.deepseek41()->round_rows(SimulatedRounding::kFp8Blocks32, activations_.latent, rows_, dim);
  } else if (rounding_) {
    compressor_.round_fp8(activations_.latent, rows_, dim, dim - description_.rope_dims);
  }
  store(places_[layer].window, pool, activations_.latent);
}

void ModelRunner::store(const KvPlace& place, const PagePool& pool, const float* rows) {
  latent_.store_rows(pool.view(place.group, place.layer), batch_.slices(place.group), rows);
}

void ModelRunner::compress_rows(const CompressorParams& params, const CompressorWeights& weights, const KvPlace& values,
                                const KvPlace& scores, const PagePool& pool) {
  CAIRN_DCHECK(values.group == scores.group);
  CompressorParams with_biases = params;
  with_biases.biases = weights.biases.floats();
  compressor_.compress(with_biases, pool.view(values.group, values.layer), pool.view(scores.group, scores.layer),
                       batch_.slices(values.group), activations_.compressed);
  const int64_t rows = completed(params.ratio);
  weights.norm.run(backend_, activations_.compressed, rows, activations_.compressed);
  turn_last(compressed_rope(params.ratio), activations_.compressed, rows, 1, params.dim);
}

void ModelRunner::compress(size_t layer, const PagePool& pool) {
  const LayerPlaces& places = places_[layer];
  store(places.values, pool, activations_.values);
  store(places.scores, pool, activations_.scores);
  const CompressorParams params = description_.compressor(description_.layers[layer]);
  compress_rows(params, weights_.layers[layer].compressor, places.values, places.scores, pool);
  if (rounding_) {
    compressor_.round_fp8(activations_.compressed, completed(params.ratio), params.dim,
                          params.dim - description_.rope_dims);
  }
  store(places.compressed, pool, activations_.compressed);
}

void ModelRunner::compress_index(size_t layer, const PagePool& pool) {
  const LayerPlaces& places = places_[layer];
  store(places.index_values, pool, activations_.index_values);
  store(places.index_scores, pool, activations_.index_scores);
  const CompressorParams params = description_.index_compressor(description_.layers[layer]);
  compress_rows(params, weights_.layers[layer].index_compressor, places.index_values, places.index_scores, pool);
  // The transform leaves products as they are: it is there for the rounding.
  if (rounding_) compressor_.hadamard_fp4(activations_.compressed, completed(params.ratio), params.dim);
  store(places.index, pool, activations_.compressed);

  turn_last(rope(Rope::kCompressed), activations_.index_query, rows_, description_.index_heads, params.dim);
  if (rounding_) {
    compressor_.hadamard_fp4(activations_.index_query, int64_t{rows_} * description_.index_heads, params.dim);
  }
}

// The key of a row in the index is made from the row before it is turned.
void ModelRunner::make_shared_rows(size_t layer, const PagePool& pool) {
  const LayerPlaces& places = places_[layer];
  const LayerWeights& weights = weights_.layers[layer];
  CompressorParams params = description_.compressor(description_.layers[layer]);
  if (params.ratio > 1) {
    store(places.values, pool, activations_.values);
    store(places.scores, pool, activations_.scores);
    params.biases = no_biases_.floats();
    compressor_.compress(params, pool.view(places.values.group, places.values.layer),
                         pool.view(places.scores.group, places.scores.layer), batch_.slices(places.values.group),
                         activations_.compressed);
  }
  const int64_t rows = completed(params.ratio);
  if (rows == 0) return;
  const int32_t index_dim = description_.index_dim;
  weights.compressor.norm.run(backend_, activations_.compressed, rows, activations_.compressed);
  const MatmulTarget key[] = {weights.index_compressor.values.to(activations_.index_values)};
  LowRankRows* const adapters = weights_.adapter_rows.get();
  if (adapters != nullptr) adapters->choose(completed_ends(params.ratio), {});
  backend_.matmul(key, activations_.compressed, static_cast<int32_t>(rows));
  if (adapters != nullptr) adapters->choose_all();
  weights.index_compressor.norm.run(backend_, activations_.index_values, rows, activations_.index_values);
  turn_last(compressed_rope(params.ratio), activations_.index_values, rows, 1, index_dim);
  turn_last(compressed_rope(params.ratio), activations_.compressed, rows, 1, params.dim);
  if (rounding_) {
    Deepseek41Operations& rounding = *backend_.deepseek41();
    rounding.round_rows(SimulatedRounding::kFp4Blocks32, activations_.index_values, rows, index_dim);
    rounding.round_rows(SimulatedRounding::kFp4Blocks16, activations_.compressed, rows, params.dim);
  }
  store(places.index, pool, activations_.index_values);
  store(places.compressed, pool, activations_.compressed);
}

// Layers without an index read what the last one before them has chosen.
void ModelRunner::choose(size_t layer, const PagePool& pool) {
  const LayerConfig& config = description_.layers[layer];
  const KvPlace& index = places_[layer].index;
  const int32_t heads = description_.index_heads, dim = description_.index_dim;
  turn_last(rope(Rope::kCompressed), activations_.index_query, rows_, heads, dim);
  if (rounding_) {
    backend_.deepseek41()->round_rows(SimulatedRounding::kFp4Blocks32, activations_.index_query, int64_t{rows_} * heads,
                                      dim);
  }
  ChooseParams params{.heads = heads, .most = description_.index_rows};
  if (config.candidates != Candidates::kNone) {
    params.candidates = {.rows = description_.candidate_rows,
                         .most = description_.candidate_blocks,
                         .find = config.candidates == Candidates::kFinds,
                         .blocks = activations_.candidates};
  }
  latent_.select_topk(params, pool.view(index.group, index.layer), batch_.slices(index.group), activations_.index_query,
                      activations_.index_weights, activations_.chosen);
}

// One softmax over the last positions as they are and the compressed rows of all before; the two overlap.
void ModelRunner::attend(size_t layer, const PagePool& pool) {
  const LayerConfig& config = description_.layers[layer];
  const LayerPlaces& places = places_[layer];
  std::array<RowSource, 2> sources;
  size_t count = 0;
  const auto add = [&](const KvPlace& place) -> RowSource& {
    RowSource& source = sources[count++];
    source.kv = pool.view(place.group, place.layer);
    source.slices = batch_.slices(place.group);
    return source;
  };
  RowSource& window = add(places.window);
  window.window = description_.window;
  if (description_.dspark && layer >= description_.main_layers()) {
    window.window += description_.dspark->block;
    window.slices = block_row_slices_;
  }
  if (config.ratio > 0) {
    RowSource& compressed = add(places.compressed);
    if (config.indexed || description_.is_v41) {
      compressed.chosen = activations_.chosen;
      compressed.chosen_max = description_.index_rows;
    }
    if (config.indexed && !description_.is_v41) {
      latent_.select_topk({description_.index_heads, description_.index_rows},
                          pool.view(places.index.group, places.index.layer), batch_.slices(places.index.group),
                          activations_.index_query, activations_.index_weights, activations_.chosen);
    }
  }
  RowAttentionParams params;
  params.heads = description_.heads;
  params.value_dim = description_.head_dim;
  params.scale = 1 / std::sqrt(static_cast<float>(description_.head_dim));
  params.sinks = weights_.layers[layer].sinks.floats();
  latent_.attend_rows(params, std::span(sources).first(count), activations_.query, activations_.attended);
}

}  // namespace cairn::deepseek4
