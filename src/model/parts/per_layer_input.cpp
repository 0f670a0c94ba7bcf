#include "model/parts/per_layer_input.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/backend.h"
#include "model/batch_rows.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

Result<PerLayerInputWeights> PerLayerInputWeights::load(WeightLoader& loader, const PerLayerInputConfig& config) {
  PerLayerInputWeights weights;
  const int64_t elements = config.elements;
  const int64_t all = config.layers * elements;
  CAIRN_TRY(weights.tokens, loader.row_table("per_layer_token_embd", config.vocabulary, all));
  const RowRange rows{config.begin * elements, config.row_elements()};
  CAIRN_TRY(weights.projection, loader.linear_rows("per_layer_model_proj", all, config.embedding, rows));
  CAIRN_TRY(weights.norm, Norm::load(loader, "per_layer_proj_norm", elements, {.epsilon = config.norm_epsilon}));
  return weights;
}

void PerLayerInputs::Activations::add_to(ActivationArena& arena, const PerLayerInputConfig& config, int64_t rows) {
  const int64_t elements = config.elements;
  const int64_t all = config.row_elements();
  arena.add(tokens, rows * all);
  arena.add(inputs, rows * all);
  arena.add(input, rows * elements);
  arena.add(other, rows * elements);
  arena.add(gate, rows * elements);
}

int64_t PerLayerInputs::bytes(const PerLayerInputConfig& config, int32_t rows) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, rows);
  const int64_t host = int64_t{rows} * (config.end - config.begin) + config.layers;
  return arena.bytes() + host * config.elements * static_cast<int64_t>(sizeof(float));
}

void PerLayerInputs::add_work(const PerLayerInputConfig& config, int32_t rows, kernels::WorkspaceSizes& sizes) {
  sizes.inputs.push_back({rows, config.elements});
}

Result<PerLayerInputs> PerLayerInputs::create(kernels::Backend& backend, const PerLayerInputConfig& config,
                                              const PerLayerInputWeights& weights, int32_t rows) {
  PerLayerInputs made(backend, config, weights);
  made.activations_.add_to(made.arena_, config, rows);
  CAIRN_TRY_VOID(made.arena_.allocate(backend));
  made.row_.resize(config.layers * config.elements);
  made.token_rows_.resize(rows * config.row_elements());
  return made;
}

void PerLayerInputs::look_up(std::span<const TokenId> tokens) {
  rows_ = static_cast<int32_t>(tokens.size());
  const int64_t elements = config_.row_elements();
  const auto own = std::span(row_).subspan(config_.begin * config_.elements, elements);
  for (int32_t r = 0; r < rows_; ++r) {
    weights_->tokens.read(index(tokens[r]), row_);
    std::ranges::copy(own, token_rows_.begin() + r * elements);
  }
  const int64_t bytes = rows_ * elements * static_cast<int64_t>(sizeof(float));
  backend_->write(token_rows_.data(), bytes, activations_.tokens);
}

void PerLayerInputs::compute(const float* x) {
  const int64_t elements = config_.elements;
  const int64_t layers = config_.end - config_.begin;
  const int64_t all = rows_ * config_.row_elements();
  float* inputs = activations_.inputs;
  const kernels::MatmulTarget projection[] = {weights_->projection.to(inputs)};
  backend_->matmul(projection, x, rows_);
  const float scale = 1 / std::sqrt(static_cast<float>(config_.embedding));
  backend_->scale_and_softcap(inputs, all, scale, 0);
  weights_->norm.run(*backend_, inputs, rows_ * layers, inputs);
  backend_->add(inputs, activations_.tokens, all, std::sqrt(static_cast<float>(elements)));
  backend_->scale_and_softcap(inputs, all, static_cast<float>(1 / std::numbers::sqrt2), 0);
}

void PerLayerInputs::begin_layer(int32_t layer) {
  const int64_t elements = config_.elements;
  input_ = activations_.input;
  backend_->copy_columns(activations_.inputs + (layer - config_.begin) * elements, config_.row_elements(), input_,
                         elements, rows_, elements);
}

void PerLayerInputs::choose(std::span<const int32_t> first, std::span<const int32_t> then) {
  float* other = input_ == activations_.input ? activations_.other : activations_.input;
  gather_chosen(*backend_, input_, first, then, config_.elements, other);
  input_ = other;
}

Result<std::unique_ptr<LayerInput>> LayerInput::load(WeightLoader& loader, const std::string& prefix,
                                                     const PerLayerInputConfig& config) {
  auto made = std::make_unique<LayerInput>();
  CAIRN_TRY(made->gate_, loader.linear(prefix + "inp_gate", config.elements, config.embedding));
  CAIRN_TRY(made->projection_, loader.linear(prefix + "proj", config.embedding, config.elements));
  return made;
}

void LayerInput::run(kernels::Backend& backend, const PerLayerInputs& inputs, const float* x, int32_t rows,
                     float* out) const {
  const PerLayerInputConfig& config = inputs.config();
  float* gate = inputs.gate();
  const kernels::MatmulTarget in[] = {gate_.to(gate)};
  backend.matmul(in, x, rows);
  backend.gate(config.activation, gate, inputs.input(), rows, config.elements, gate);
  const kernels::MatmulTarget projection[] = {projection_.to(out)};
  backend.matmul(projection, gate, rows);
}

}  // namespace cairn::model
