#include "model/weights/recurrent_weights.h"

#include <vector>

namespace cairn {

namespace {

// The rows [begin, begin + rows) of each of `groups` neighbouring parts of a matrix, which have `stride` rows.
std::vector<RowRange> rows_of_groups(int64_t groups, int64_t stride, int64_t begin, int64_t rows) {
  std::vector<RowRange> ranges;
  for (int64_t g = 0; g < groups; ++g) ranges.push_back({g * stride + begin, rows});
  return ranges;
}

// First files of Qwen3-Next have one tensor, ssm_in, whose rows are in order of the key heads: for each its query, its
// key, and the values and gates of the heads that use it.
Result<void> load_joint_input(WeightLoader& binder, const std::string& name, const DecoderConfig& config,
                              RecurrentWeights& weights) {
  const RecurrentConfig& state = *config.recurrent;
  const int64_t keys = state.state_dim, values = state.inner() / state.groups;
  const int64_t stride = 2 * keys + 2 * values, rows = stride * state.groups;
  const auto pick = [&](int64_t begin, int64_t count) { return rows_of_groups(state.groups, stride, begin, count); };
  std::vector<RowRange> mixed;
  for (const auto& part : {pick(0, keys), pick(keys, keys), pick(2 * keys, values)}) {
    mixed.insert(mixed.end(), part.begin(), part.end());
  }
  CAIRN_TRY(weights.mixed, binder.linear_picked(name, rows, config.embedding, mixed));
  CAIRN_TRY(weights.gate, binder.linear_picked(name, rows, config.embedding, pick(2 * keys + values, values)));
  return {};
}

Result<void> load_gated_delta_net(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                                  RecurrentWeights& weights) {
  const RecurrentConfig& state = *config.recurrent;
  const int64_t width = config.embedding, heads = state.heads;
  if (const std::string joint = prefix + "ssm_in"; binder.has(joint + ".weight")) {
    CAIRN_TRY_VOID(load_joint_input(binder, joint, config, weights));
  } else {
    CAIRN_TRY(weights.mixed, binder.linear(prefix + "attn_qkv", state.channels, width));
    CAIRN_TRY(weights.gate, binder.linear(prefix + "attn_gate", state.inner(), width));
  }
  if (const std::string joint = prefix + "ssm_ba"; binder.has(joint + ".weight")) {
    // For each key head the betas of its value heads, then their alphas.
    const int64_t share = heads / state.groups;
    const auto betas = rows_of_groups(state.groups, 2 * share, 0, share);
    const auto alphas = rows_of_groups(state.groups, 2 * share, share, share);
    CAIRN_TRY(weights.beta, binder.linear_picked(joint, 2 * heads, width, betas));
    CAIRN_TRY(weights.alpha, binder.linear_picked(joint, 2 * heads, width, alphas));
  } else {
    CAIRN_TRY(weights.beta, binder.linear(prefix + "ssm_beta", heads, width));
    CAIRN_TRY(weights.alpha, binder.linear(prefix + "ssm_alpha", heads, width));
  }
  CAIRN_TRY(weights.rate, binder.vector(prefix + "ssm_a", heads));
  CAIRN_TRY(weights.norm, binder.vector(prefix + "ssm_norm.weight", state.head_dim));
  return {};
}

Result<void> load_kimi_delta_attention(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                                       RecurrentWeights& weights) {
  const RecurrentConfig& state = *config.recurrent;
  const int64_t width = config.embedding, inner = state.inner();
  weights.kimi = std::make_unique<KimiDeltaWeights>();
  KimiDeltaWeights& kimi = *weights.kimi;
  if (const std::string joint = prefix + "attn_qkv"; binder.has(joint + ".weight")) {
    CAIRN_TRY(kimi.query, binder.linear_rows(joint, 3 * inner, width, {0, inner}));
    CAIRN_TRY(kimi.key, binder.linear_rows(joint, 3 * inner, width, {inner, inner}));
    CAIRN_TRY(kimi.value, binder.linear_rows(joint, 3 * inner, width, {2 * inner, inner}));
  } else {
    CAIRN_TRY(kimi.query, binder.linear(prefix + "attn_q", inner, width));
    CAIRN_TRY(kimi.key, binder.linear(prefix + "attn_k", inner, width));
    CAIRN_TRY(kimi.value, binder.linear(prefix + "attn_v", inner, width));
  }
  const std::string convolutions[] = {prefix + "ssm_conv1d_q.weight", prefix + "ssm_conv1d_k.weight",
                                      prefix + "ssm_conv1d_v.weight"};
  CAIRN_TRY(weights.convolution, binder.turned_tables(convolutions, inner, state.taps));
  CAIRN_TRY(kimi.alpha_low, binder.linear(prefix + "ssm_f_a", state.gate_rank, width));
  CAIRN_TRY(weights.alpha, binder.linear(prefix + "ssm_f_b", inner, state.gate_rank));
  CAIRN_TRY(kimi.gate_low, binder.linear(prefix + "ssm_g_a", state.gate_rank, width));
  CAIRN_TRY(weights.gate, binder.linear(prefix + "ssm_g_b", inner, state.gate_rank));
  CAIRN_TRY(weights.beta, binder.linear(prefix + "ssm_beta", state.heads, width));
  CAIRN_TRY(weights.rate, binder.table(prefix + "ssm_a", state.heads, 1));
  CAIRN_TRY(weights.time_bias, binder.vector(prefix + "ssm_dt.bias", inner));
  CAIRN_TRY(weights.norm, binder.vector(prefix + "ssm_norm.weight", state.head_dim));
  CAIRN_TRY(weights.output, binder.linear(prefix + "attn_output", width, inner));
  return {};
}

// The rows of ssm_in are those of the gate, of what is mixed, and of the time steps.
Result<void> load_mamba2(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                         RecurrentWeights& weights) {
  const RecurrentConfig& state = *config.recurrent;
  const int64_t width = config.embedding, inner = state.inner(), heads = state.heads;
  const std::string name = prefix + "ssm_in";
  const int64_t rows = inner + state.channels + heads;
  CAIRN_TRY(weights.gate, binder.linear_rows(name, rows, width, {0, inner}));
  CAIRN_TRY(weights.mixed, binder.linear_rows(name, rows, width, {inner, state.channels}));
  CAIRN_TRY(weights.alpha, binder.linear_rows(name, rows, width, {inner + state.channels, heads}));
  CAIRN_TRY(weights.rate, binder.table(prefix + "ssm_a", heads, 1));
  CAIRN_TRY(weights.skip, binder.table(prefix + "ssm_d", heads, 1));
  if (state.normed) {
    CAIRN_TRY(weights.norm, binder.table(prefix + "ssm_norm.weight", state.groups, inner / state.groups));
  }
  return {};
}

// The rows of in_proj are those of the gate of the convolution's input, of the gate of its output, and of the input.
Result<void> load_short_convolution(WeightLoader& binder, const std::string& prefix, const DecoderConfig& config,
                                    RecurrentWeights& weights) {
  const int64_t width = config.embedding;
  const std::string name = prefix + "shortconv.in_proj";
  CAIRN_TRY(weights.input_gate, binder.linear_rows(name, 3 * width, width, {0, width}));
  CAIRN_TRY(weights.gate, binder.linear_rows(name, 3 * width, width, {width, width}));
  CAIRN_TRY(weights.mixed, binder.linear_rows(name, 3 * width, width, {2 * width, width}));
  CAIRN_TRY(weights.convolution, binder.turned_table(prefix + "shortconv.conv.weight", width, config.recurrent->taps));
  CAIRN_TRY(weights.output, binder.linear(prefix + "shortconv.out_proj", width, width));
  return {};
}

}  // namespace

Result<RecurrentWeights> load_recurrent_weights(WeightLoader& binder, const std::string& prefix, Mixer mixer,
                                                const DecoderConfig& config) {
  const RecurrentConfig& state = *config.recurrent;
  RecurrentWeights weights;
  if (mixer == Mixer::kShortConvolution) {
    CAIRN_TRY_VOID(load_short_convolution(binder, prefix, config, weights));
    return weights;
  }
  if (mixer == Mixer::kKimiDeltaAttention) {
    CAIRN_TRY_VOID(load_kimi_delta_attention(binder, prefix, config, weights));
    return weights;
  }
  if (mixer == Mixer::kGatedDeltaNet) {
    CAIRN_TRY_VOID(load_gated_delta_net(binder, prefix, config, weights));
  } else {
    CAIRN_TRY_VOID(load_mamba2(binder, prefix, config, weights));
  }
  CAIRN_TRY(weights.convolution, binder.turned_table(prefix + "ssm_conv1d.weight", state.channels, state.taps));
  if (const std::string bias = prefix + "ssm_conv1d.bias"; binder.has(bias)) {
    CAIRN_TRY(weights.convolution_bias, binder.vector(bias, state.channels));
  }
  CAIRN_TRY(weights.time_bias, binder.vector(prefix + "ssm_dt.bias", state.heads));
  CAIRN_TRY(weights.output, binder.linear(prefix + "ssm_out", config.embedding, state.inner()));
  return weights;
}

}  // namespace cairn
