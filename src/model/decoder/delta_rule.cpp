#include "model/decoder/recurrent_layer.h"

#include "kernels/backend.h"

// Gated DeltaNet and Kimi Delta Attention, which differ in what makes the gates, and in how a state decays.
namespace cairn {

void RecurrentLayers::gated_delta_net(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                      float* out) const {
  const MatmulTarget in[] = {weights.mixed.to(activations_.mixed), weights.gate.to(activations_.gate),
                             weights.beta.to(activations_.beta), weights.alpha.to(activations_.alpha)};
  backend_->matmul(in, x, step.rows);
  correct_states(weights, step, Activation::kSilu, out);
}

// Queries, keys and values are made by a matrix each, which may be of different types; their rows go side by side.
void RecurrentLayers::kimi_delta_attention(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                           float* out) const {
  const int64_t rows = step.rows, inner = description_->recurrent->inner();
  float* const query = activations_.convolved;
  float* const key = query + rows * inner;
  float* const value = key + rows * inner;
  const KimiDeltaWeights& kimi = *weights.kimi;
  const MatmulTarget in[] = {kimi.query.to(query),
                             kimi.key.to(key),
                             kimi.value.to(value),
                             kimi.gate_low.to(activations_.gate_low),
                             kimi.alpha_low.to(activations_.alpha_low),
                             weights.beta.to(activations_.beta)};
  backend_->matmul(in, x, step.rows);
  float* column = activations_.mixed;
  for (const float* part : {query, key, value}) {
    backend_->copy_columns(part, inner, column, 3 * inner, rows, inner);
    column += inner;
  }
  const MatmulTarget gate[] = {weights.gate.to(activations_.gate)};
  backend_->matmul(gate, activations_.gate_low, step.rows);
  const MatmulTarget alpha[] = {weights.alpha.to(activations_.alpha)};
  backend_->matmul(alpha, activations_.alpha_low, step.rows);
  correct_states(weights, step, Activation::kSigmoid, out);
}

void RecurrentLayers::correct_states(const RecurrentWeights& weights, const RecurrentStep& step, Activation gate,
                                     float* out) const {
  const RecurrentConfig& state = *description_->recurrent;
  convolve(weights, step.slices, inputs());
  remember_drafts(step);
  delta_rule(weights, step.slices, inputs());
  const GatedNormParams norm{.order = GateOrder::kNormFirst,
                             .activation = gate,
                             .cols = state.head_dim,
                             .groups = 1,
                             .weight = weights.norm.floats(),
                             .epsilon = description_->norm.epsilon};
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
                               .channel_decay = state.channel_decay,
                               .epsilon = state.length_epsilon > 0 ? state.length_epsilon : description_->norm.epsilon,
                               .rate = weights.rate.floats(),
                               .time_bias = weights.time_bias.floats(),
                               .state_offset = state.window_bytes()};
  backend_->recurrent()->delta_rule(
      params, slices,
      {.mixed = activations_.convolved, .alpha = inputs.alpha, .beta = inputs.beta, .out = activations_.read});
}

}  // namespace cairn
