#include "model/decoder/recurrent_layer.h"

namespace cairn {

void RecurrentLayers::gated_delta_net(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                      float* out) const {
  const RecurrentConfig& state = *description_->recurrent;
  const MatmulTarget in[] = {weights.mixed.to(activations_.mixed), weights.gate.to(activations_.gate),
                             weights.beta.to(activations_.beta), weights.alpha.to(activations_.alpha)};
  backend_->matmul(in, x, step.rows);
  convolve(weights, step.slices, inputs());
  remember_drafts(step);
  delta_rule(weights, step.slices, inputs());
  const GatedNormParams norm{.order = GateOrder::kNormFirst,
                             .cols = state.head_dim,
                             .groups = 1,
                             .weight = weights.norm.floats(),
                             .epsilon = description_->norm_epsilon};
  backend_->recurrent()->gated_norm(norm, activations_.gate, int64_t{step.rows} * state.heads, activations_.read);
  const MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.read, step.rows);
}

void RecurrentLayers::delta_rule(const RecurrentWeights& weights, std::span<const StateSlice> slices,
                                 const Inputs& inputs) const {
  const RecurrentConfig& state = *description_->recurrent;
  const DeltaRuleParams params{.key_heads = state.groups,
                               .heads = state.heads,
                               .key_dim = state.state_dim,
                               .value_dim = state.head_dim,
                               .strided_heads = state.strided_heads,
                               .epsilon = description_->norm_epsilon,
                               .rate = weights.rate.floats(),
                               .time_bias = weights.time_bias.floats(),
                               .state_offset = state.window_bytes()};
  backend_->recurrent()->delta_rule(
      params, slices,
      {.mixed = activations_.convolved, .alpha = inputs.alpha, .beta = inputs.beta, .out = activations_.read});
}

}  // namespace cairn
