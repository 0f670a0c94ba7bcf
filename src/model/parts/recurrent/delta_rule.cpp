#include "model/parts/recurrent/layers.h"

#include <vector>

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

// Gated DeltaNet and Kimi Delta Attention, which differ in what makes the gates, and in how a state decays.
namespace cairn::model {

namespace {

// The rows [begin, begin + rows) of each of `groups` neighbouring parts of a matrix, which have `stride` rows.
std::vector<RowRange> rows_of_groups(int64_t groups, int64_t stride, int64_t begin, int64_t rows) {
  std::vector<RowRange> ranges;
  for (int64_t g = 0; g < groups; ++g) ranges.push_back({g * stride + begin, rows});
  return ranges;
}

// First files of Qwen3-Next have one tensor, ssm_in, whose rows are in order of the key heads: for each its query, its
// key, and the values and gates of the heads that use it.
Result<void> load_joint_input(WeightLoader& loader, const std::string& name, const RecurrentConfig& config,
                              RecurrentWeights& weights) {
  const int64_t keys = config.state_dim, values = config.inner() / config.groups;
  const int64_t stride = 2 * keys + 2 * values, rows = stride * config.groups;
  const auto pick = [&](int64_t begin, int64_t count) { return rows_of_groups(config.groups, stride, begin, count); };
  std::vector<RowRange> mixed;
  for (const auto& part : {pick(0, keys), pick(keys, keys), pick(2 * keys, values)}) {
    mixed.insert(mixed.end(), part.begin(), part.end());
  }
  CAIRN_TRY(weights.mixed, loader.linear_picked(name, rows, config.embedding, mixed));
  CAIRN_TRY(weights.gate, loader.linear_picked(name, rows, config.embedding, pick(2 * keys + values, values)));
  return {};
}

}  // namespace

Result<void> load_gated_delta_net(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                  RecurrentWeights& weights) {
  const int64_t width = config.embedding, heads = config.heads;
  if (const std::string joint = prefix + "ssm_in"; loader.has(joint + ".weight")) {
    CAIRN_TRY_VOID(load_joint_input(loader, joint, config, weights));
  } else {
    CAIRN_TRY(weights.mixed, loader.linear(prefix + "attn_qkv", config.channels, width));
    CAIRN_TRY(weights.gate, loader.linear(prefix + "attn_gate", config.inner(), width));
  }
  if (const std::string joint = prefix + "ssm_ba"; loader.has(joint + ".weight")) {
    // For each key head the betas of its value heads, then their alphas.
    const int64_t share = heads / config.groups;
    const auto betas = rows_of_groups(config.groups, 2 * share, 0, share);
    const auto alphas = rows_of_groups(config.groups, 2 * share, share, share);
    CAIRN_TRY(weights.beta, loader.linear_picked(joint, 2 * heads, width, betas));
    CAIRN_TRY(weights.alpha, loader.linear_picked(joint, 2 * heads, width, alphas));
  } else {
    CAIRN_TRY(weights.beta, loader.linear(prefix + "ssm_beta", heads, width));
    CAIRN_TRY(weights.alpha, loader.linear(prefix + "ssm_alpha", heads, width));
  }
  CAIRN_TRY(weights.rate, loader.vector(prefix + "ssm_a", heads));
  CAIRN_TRY(weights.norm, loader.vector(prefix + "ssm_norm.weight", config.head_dim));
  return {};
}

Result<void> load_kimi_delta_attention(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                       RecurrentWeights& weights) {
  const int64_t width = config.embedding, inner = config.inner();
  weights.kimi = std::make_unique<KimiDeltaWeights>();
  KimiDeltaWeights& kimi = *weights.kimi;
  if (const std::string joint = prefix + "attn_qkv"; loader.has(joint + ".weight")) {
    CAIRN_TRY(kimi.query, loader.linear_rows(joint, 3 * inner, width, {0, inner}));
    CAIRN_TRY(kimi.key, loader.linear_rows(joint, 3 * inner, width, {inner, inner}));
    CAIRN_TRY(kimi.value, loader.linear_rows(joint, 3 * inner, width, {2 * inner, inner}));
  } else {
    CAIRN_TRY(kimi.query, loader.linear(prefix + "attn_q", inner, width));
    CAIRN_TRY(kimi.key, loader.linear(prefix + "attn_k", inner, width));
    CAIRN_TRY(kimi.value, loader.linear(prefix + "attn_v", inner, width));
  }
  const std::string convolutions[] = {prefix + "ssm_conv1d_q.weight", prefix + "ssm_conv1d_k.weight",
                                      prefix + "ssm_conv1d_v.weight"};
  CAIRN_TRY(weights.convolution, loader.turned_tables(convolutions, inner, config.taps));
  CAIRN_TRY(kimi.alpha_low, loader.linear(prefix + "ssm_f_a", config.gate_rank, width));
  CAIRN_TRY(weights.alpha, loader.linear(prefix + "ssm_f_b", inner, config.gate_rank));
  CAIRN_TRY(kimi.gate_low, loader.linear(prefix + "ssm_g_a", config.gate_rank, width));
  CAIRN_TRY(weights.gate, loader.linear(prefix + "ssm_g_b", inner, config.gate_rank));
  CAIRN_TRY(weights.beta, loader.linear(prefix + "ssm_beta", config.heads, width));
  CAIRN_TRY(weights.rate, loader.table(prefix + "ssm_a", config.heads, 1));
  CAIRN_TRY(weights.time_bias, loader.vector(prefix + "ssm_dt.bias", inner));
  CAIRN_TRY(weights.norm, loader.vector(prefix + "ssm_norm.weight", config.head_dim));
  CAIRN_TRY(weights.output, loader.linear(prefix + "attn_output", width, inner));
  return {};
}

void RecurrentLayers::gated_delta_net(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                      float* out) const {
  const kernels::MatmulTarget in[] = {weights.mixed.to(activations_.mixed), weights.gate.to(activations_.gate),
                                      weights.beta.to(activations_.beta), weights.alpha.to(activations_.alpha)};
  backend_->matmul(in, x, step.rows);
  correct_states(weights, step, kernels::Activation::kSilu, out);
}

// Queries, keys and values are made by a matrix each, which may be of different types; their rows go side by side.
void RecurrentLayers::kimi_delta_attention(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                           float* out) const {
  const int64_t rows = step.rows, inner = config_.inner();
  float* const query = activations_.convolved;
  float* const key = query + rows * inner;
  float* const value = key + rows * inner;
  const KimiDeltaWeights& kimi = *weights.kimi;
  const kernels::MatmulTarget in[] = {kimi.query.to(query),
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
  const kernels::MatmulTarget gate[] = {weights.gate.to(activations_.gate)};
  backend_->matmul(gate, activations_.gate_low, step.rows);
  const kernels::MatmulTarget alpha[] = {weights.alpha.to(activations_.alpha)};
  backend_->matmul(alpha, activations_.alpha_low, step.rows);
  correct_states(weights, step, kernels::Activation::kSigmoid, out);
}

void RecurrentLayers::correct_states(const RecurrentWeights& weights, const RecurrentStep& step,
                                     kernels::Activation gate, float* out) const {
  convolve(weights, step.slices, inputs());
  remember_drafts(step);
  delta_rule(weights, step.slices, inputs());
  const kernels::GatedNormParams norm{.order = kernels::GateOrder::kNormFirst,
                                      .activation = gate,
                                      .cols = config_.head_dim,
                                      .groups = 1,
                                      .weight = weights.norm.floats(),
                                      .epsilon = config_.norm_epsilon};
  backend_->recurrent()->gated_norm(norm, activations_.gate, int64_t{step.rows} * config_.heads, activations_.read);
  const kernels::MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.read, step.rows);
}

void RecurrentLayers::delta_rule(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices,
                                 const Inputs& inputs) const {
  const kernels::DeltaRuleParams params{
      .key_heads = config_.groups,
      .heads = config_.heads,
      .key_dim = config_.state_dim,
      .value_dim = config_.head_dim,
      .strided_heads = config_.strided_heads,
      .channel_decay = config_.channel_decay,
      .epsilon = config_.length_epsilon > 0 ? config_.length_epsilon : config_.norm_epsilon,
      .rate = weights.rate.floats(),
      .time_bias = weights.time_bias.floats(),
      .state_offset = config_.window_bytes()};
  backend_->recurrent()->delta_rule(
      params, slices,
      {.mixed = activations_.convolved, .alpha = inputs.alpha, .beta = inputs.beta, .out = activations_.read});
}

}  // namespace cairn::model
