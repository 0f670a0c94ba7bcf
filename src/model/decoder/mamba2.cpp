#include "model/decoder/recurrent_layer.h"

#include "kernels/backend.h"

namespace cairn {

void RecurrentLayers::mamba2(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                             float* out) const {
  const RecurrentConfig& state = *description_->recurrent;
  const MatmulTarget in[] = {weights.gate.to(activations_.gate), weights.mixed.to(activations_.mixed),
                             weights.alpha.to(activations_.alpha)};
  backend_->matmul(in, x, step.rows);
  convolve(weights, step.slices, inputs());
  remember_drafts(step);
  scan(weights, step.slices, inputs());
  if (state.normed) {
    const GatedNormParams norm{.order = GateOrder::kGateFirst,
                               .cols = state.inner() / state.groups,
                               .groups = state.groups,
                               .weight = weights.norm.floats(),
                               .epsilon = description_->norm.epsilon};
    backend_->recurrent()->gated_norm(norm, activations_.gate, step.rows, activations_.read);
  } else {
    backend_->gate(Activation::kSilu, activations_.gate, activations_.read, step.rows, state.inner(),
                   activations_.read);
  }
  const MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.read, step.rows);
}

void RecurrentLayers::scan(const RecurrentWeights& weights, std::span<const StateSlice> slices,
                           const Inputs& inputs) const {
  const RecurrentConfig& state = *description_->recurrent;
  const ScanParams params{.heads = state.heads,
                          .groups = state.groups,
                          .head_dim = state.head_dim,
                          .state_dim = state.state_dim,
                          .rate = weights.rate.floats(),
                          .skip = weights.skip.floats(),
                          .time_bias = weights.time_bias.floats(),
                          .state_offset = state.window_bytes()};
  backend_->recurrent()->scan(
      params, slices,
      {.mixed = activations_.convolved, .steps = inputs.alpha, .decays = inputs.beta, .out = activations_.read});
}

}  // namespace cairn
