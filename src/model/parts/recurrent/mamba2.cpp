#include "model/parts/recurrent/layers.h"

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

// The rows of ssm_in are those of the gate, of what is mixed, and of the time steps.
Result<void> load_mamba2(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                         RecurrentWeights& weights) {
  const int64_t width = config.embedding, inner = config.inner(), heads = config.heads;
  const std::string name = prefix + "ssm_in";
  const int64_t rows = inner + config.channels + heads;
  CAIRN_TRY(weights.gate, loader.linear_rows(name, rows, width, {0, inner}));
  CAIRN_TRY(weights.mixed, loader.linear_rows(name, rows, width, {inner, config.channels}));
  CAIRN_TRY(weights.alpha, loader.linear_rows(name, rows, width, {inner + config.channels, heads}));
  CAIRN_TRY(weights.rate, loader.table(prefix + "ssm_a", heads, 1));
  CAIRN_TRY(weights.skip, loader.table(prefix + "ssm_d", heads, 1));
  if (config.normed) {
    CAIRN_TRY(weights.norm, loader.table(prefix + "ssm_norm.weight", config.groups, inner / config.groups));
  }
  return {};
}

void RecurrentLayers::mamba2(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                             float* out) const {
  const kernels::MatmulTarget in[] = {weights.gate.to(activations_.gate), weights.mixed.to(activations_.mixed),
                                      weights.alpha.to(activations_.alpha)};
  backend_->matmul(in, x, step.rows);
  convolve(weights, step.slices, inputs());
  remember_drafts(step);
  scan(weights, step.slices, inputs());
  if (config_.normed) {
    const kernels::GatedNormParams norm{.order = kernels::GateOrder::kGateFirst,
                                        .cols = config_.inner() / config_.groups,
                                        .groups = config_.groups,
                                        .weight = weights.norm.floats(),
                                        .epsilon = config_.norm_epsilon};
    backend_->recurrent()->gated_norm(norm, activations_.gate, step.rows, activations_.read);
  } else {
    backend_->gate(kernels::Activation::kSilu, activations_.gate, activations_.read, step.rows, config_.inner(),
                   activations_.read);
  }
  const kernels::MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.read, step.rows);
}

void RecurrentLayers::scan(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices,
                           const Inputs& inputs) const {
  const kernels::ScanParams params{.heads = config_.heads,
                                   .groups = config_.groups,
                                   .head_dim = config_.head_dim,
                                   .state_dim = config_.state_dim,
                                   .rate = weights.rate.floats(),
                                   .skip = weights.skip.floats(),
                                   .time_bias = weights.time_bias.floats(),
                                   .state_offset = config_.window_bytes()};
  backend_->recurrent()->scan(
      params, slices,
      {.mixed = activations_.convolved, .steps = inputs.alpha, .decays = inputs.beta, .out = activations_.read});
}

}  // namespace cairn::model
