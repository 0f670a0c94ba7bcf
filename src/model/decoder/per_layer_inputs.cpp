#include "model/decoder/per_layer_inputs.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/backend.h"

namespace cairn {

void PerLayerInputs::Activations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows,
                                         LayerRange range) {
  const int64_t elements = config.per_layer_input;
  const int64_t all = (range.end - range.begin) * elements;
  arena.add(tokens, rows * all);
  arena.add(inputs, rows * all);
  arena.add(input, rows * elements);
  arena.add(other, rows * elements);
  arena.add(gate, rows * elements);
}

int64_t PerLayerInputs::bytes(const DecoderConfig& config, int32_t rows, LayerRange range) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, rows, range);
  const int64_t host = int64_t{rows} * (range.end - range.begin) + std::ssize(config.layers);
  return arena.bytes() + host * config.per_layer_input * static_cast<int64_t>(sizeof(float));
}

void PerLayerInputs::add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes) {
  sizes.inputs.push_back({rows, config.per_layer_input});
}

Result<PerLayerInputs> PerLayerInputs::create(Backend& backend, const DecoderConfig& config, LayerRange range,
                                              int32_t rows) {
  PerLayerInputs made(backend, config, range);
  made.activations_.add_to(made.arena_, config, rows, range);
  CAIRN_TRY_VOID(made.arena_.allocate(backend));
  made.row_.resize(config.layers.size() * config.per_layer_input);
  made.token_rows_.resize(rows * made.row_elements());
  return made;
}

void PerLayerInputs::look_up(const PerLayerInputWeights& weights, std::span<const TokenId> tokens) {
  rows_ = static_cast<int32_t>(tokens.size());
  const int64_t elements = row_elements();
  const auto own = std::span(row_).subspan(range_.begin * description_->per_layer_input, elements);
  for (int32_t r = 0; r < rows_; ++r) {
    weights.tokens.read(index(tokens[r]), row_);
    std::ranges::copy(own, token_rows_.begin() + r * elements);
  }
  const int64_t bytes = rows_ * elements * static_cast<int64_t>(sizeof(float));
  backend_->write(token_rows_.data(), bytes, activations_.tokens);
}

void PerLayerInputs::compute(const PerLayerInputWeights& weights, const float* x) {
  const int64_t elements = description_->per_layer_input;
  const int64_t layers = range_.end - range_.begin;
  const int64_t all = rows_ * row_elements();
  float* inputs = activations_.inputs;
  const MatmulTarget projection[] = {weights.projection.to(inputs)};
  backend_->matmul(projection, x, rows_);
  const float scale = 1 / std::sqrt(static_cast<float>(description_->embedding));
  backend_->scale_and_softcap(inputs, all, scale, 0);
  weights.norm.run(*backend_, inputs, rows_ * layers, inputs);
  backend_->add(inputs, activations_.tokens, all, std::sqrt(static_cast<float>(elements)));
  backend_->scale_and_softcap(inputs, all, static_cast<float>(1 / std::numbers::sqrt2), 0);
}

void PerLayerInputs::begin_layer(int32_t layer) {
  const int64_t elements = description_->per_layer_input;
  input_ = activations_.input;
  backend_->copy_columns(activations_.inputs + (layer - range_.begin) * elements, row_elements(), input_, elements,
                         rows_, elements);
}

void PerLayerInputs::apply(const LayerWeights& weights, const float* x, int32_t rows, float* out) const {
  float* gate = activations_.gate;
  const MatmulTarget in[] = {weights.input_gate.to(gate)};
  backend_->matmul(in, x, rows);
  backend_->gate(description_->feed_forward.activation, gate, input_, rows, description_->per_layer_input, gate);
  const MatmulTarget projection[] = {weights.input_projection.to(out)};
  backend_->matmul(projection, gate, rows);
}

}  // namespace cairn
