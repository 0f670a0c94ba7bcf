#include "kernels/cpu/recurrent/recurrent_op.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/operation_params.h"

namespace cairn::kernels::cpu {
namespace {

// Approximate nanoseconds per element of one thread, by what bounds the operation; only used to choose the size of
// chunks.
constexpr double kTapNs = 0.2;
constexpr double kSiluNs = 1.0;
constexpr double kStateReadNs = 0.8;  // a state comes from memory and goes back there
constexpr double kStateTokenNs = 0.1;
constexpr double kPrepareNs = 1.0;
constexpr double kGateNs = 60;
constexpr double kDecayNs = 2;

// Elements of a state that a task has at least, so that they stay in the first-level cache: 16 KiB.
constexpr int64_t kStateBlock = 4096;
constexpr int64_t kChannelBlock = 256;

float* state_of(const StateSlice& slice, int64_t offset) { return reinterpret_cast<float*>(slice.state + offset); }

/// Runs a slice's rows over `elements` of its state, at most kStateBlock; drafts change a copy of them.
template <class Call>
void run_rows(void (*kernel)(const Call&), Call call, const StateSlice& slice, int64_t elements) {
  call.tokens = slice.rows_kept();
  kernel(call);
  if (slice.drafts == 0) return;
  alignas(64) float copy[kStateBlock];
  std::copy_n(call.state, elements, copy);
  call.advance(call.tokens);
  call.state = copy;
  call.tokens = slice.drafts;
  kernel(call);
}

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

int64_t rows_of(std::span<const StateSlice> slices) {
  return slices.empty() ? 0 : int64_t{slices.back().row_begin} + slices.back().rows;
}

/// How heads' states [rows, cols] are divided into tasks.
struct StateBlocks {
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t block = 0;

  StateBlocks(int64_t heads_of, int64_t rows_of_head, int64_t cols)
      : heads(heads_of), rows(rows_of_head), block(std::clamp<int64_t>(kStateBlock / cols, 1, rows_of_head)) {}
  int64_t per_head() const { return (rows + block - 1) / block; }
  int64_t per_slice() const { return heads * per_head(); }
};

/// Calls body(slice, head, first row, rows) for every block of every slice.
template <class Body>
void run_blocks(ThreadTeam& team, const StateBlocks& blocks, int64_t cols, std::span<const StateSlice> slices,
                Body body) {
  const auto count = std::ssize(slices);
  const double tokens = static_cast<double>(rows_of(slices)) / static_cast<double>(std::max<int64_t>(count, 1));
  const double block_ns = static_cast<double>(blocks.block * cols) * (kStateReadNs + kStateTokenNs * tokens);
  team.run_items(count * blocks.per_slice(), block_ns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t within = i % blocks.per_slice();
      const int64_t first = within % blocks.per_head() * blocks.block;
      body(slices[static_cast<size_t>(i / blocks.per_slice())], within / blocks.per_head(), first,
           std::min(blocks.block, blocks.rows - first));
    }
  });
}

}  // namespace

void RecurrentOp::convolve(const ConvolutionParams& params, std::span<const StateSlice> slices,
                           const ConvolutionRows& rows) {
  CAIRN_DCHECK(params.taps >= 1 && params.taps <= kConvolutionTapsMax);
  const int64_t blocks = (params.channels + kChannelBlock - 1) / kChannelBlock;
  const double element_ns = kTapNs * params.taps + (params.silu ? kSiluNs : 0);
  const double tokens = static_cast<double>(rows_of(slices)) / static_cast<double>(std::max<size_t>(slices.size(), 1));
  const double block_ns = element_ns * static_cast<double>(kChannelBlock) * tokens;
  team_.run_items(std::ssize(slices) * blocks, block_ns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kChannelBlock;
      convolve_channels(params, slices[static_cast<size_t>(i / blocks)], rows, first,
                        std::min(kChannelBlock, params.channels - first));
    }
  });
}

void RecurrentOp::convolve_channels(const ConvolutionParams& params, const StateSlice& slice,
                                    const ConvolutionRows& rows, int64_t begin, int64_t channels) const {
  const int32_t before = params.taps - 1;
  float* window = state_of(slice, params.state_offset) + begin;
  const auto window_row = [&](int32_t row) { return window + row * params.channels; };
  const auto place = [&](int32_t row) { return (int64_t{slice.row_begin} + row) * params.channels + begin; };
  if (slice.position_begin == 0) {
    for (int32_t row = 0; row < before; ++row) std::fill_n(window_row(row), channels, 0.0F);
  }
  ConvolutionCall call{.inputs = nullptr,
                       .weights = params.weights + begin,
                       .weight_stride = params.channels,
                       .bias = params.bias == nullptr ? nullptr : params.bias + begin,
                       .taps = params.taps,
                       .silu = params.silu};
  for (int32_t row = 0; row < slice.rows; ++row) {
    if (rows.input_factors != nullptr) {
      kernels_.multiply(rows.x + place(row), rows.input_factors + place(row), channels);
    }
    const float* inputs[kConvolutionTapsMax];
    for (int32_t tap = 0; tap < params.taps; ++tap) {
      const int32_t from = row - before + tap;
      inputs[tap] = from < 0 ? window_row(from + before) : rows.x + place(from);
    }
    call.inputs = inputs;
    float* out = rows.out + place(row);
    kernels_.convolve(call, channels, out);
    if (rows.output_factors != nullptr) kernels_.multiply(out, rows.output_factors + place(row), channels);
  }
  // The last rows of window and slice together, without drafts; of a short slice the window moves on.
  for (int32_t row = 0; row < before; ++row) {
    const int32_t from = slice.rows_kept() - before + row;
    std::copy_n(from < 0 ? window_row(from + before) : rows.x + place(from), channels, window_row(row));
  }
}

void RecurrentOp::prepare_row(const DeltaRuleParams& params, const DeltaRuleRows& rows, int64_t row) const {
  const int64_t dim = params.key_dim;
  const auto elements = static_cast<float>(dim);
  float* query = rows.mixed + row * params.mixed_width();
  float* key = query + params.key_heads * dim;
  for (int64_t head = 0; head < params.key_heads; ++head, query += dim, key += dim) {
    // A vector over its length is one over its root mean square, and over the root of its size.
    rows_.rms_norm(query, nullptr, params.epsilon / elements, dim, query);
    rows_.scale(query, dim, 1 / elements);
    rows_.rms_norm(key, nullptr, params.epsilon / elements, dim, key);
    rows_.scale(key, dim, 1 / std::sqrt(elements));
  }
  float* alpha = rows.alpha + row * params.decays();
  float* beta = rows.beta + row * params.heads;
  for (int32_t head = 0; head < params.heads; ++head) {
    if (params.channel_decay) {
      const int64_t first = head * dim;
      kernels_.decay(alpha + first, params.time_bias + first, params.rate[head], dim);
    } else {
      const double time = softplus(static_cast<double>(alpha[head] + params.time_bias[head]));
      alpha[head] = static_cast<float>(std::exp(static_cast<double>(params.rate[head]) * time));
    }
    beta[head] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(beta[head]))));
  }
}

void RecurrentOp::delta_rule(const DeltaRuleParams& params, std::span<const StateSlice> slices,
                             const DeltaRuleRows& rows) {
  CAIRN_DCHECK(params.heads % params.key_heads == 0);
  const int64_t width = params.mixed_width(), keys = int64_t{params.key_heads} * params.key_dim;
  const double decays_ns = params.channel_decay ? kDecayNs * static_cast<double>(params.decays()) : 0;
  const double row_ns = kPrepareNs * 2 * static_cast<double>(keys) + kGateNs * params.heads + decays_ns;
  team_.run_items(rows_of(slices), row_ns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) prepare_row(params, rows, row);
  });
  const StateBlocks blocks(params.heads, params.value_dim, params.key_dim);
  CAIRN_DCHECK(params.key_dim <= kStateBlock);
  const auto body = [&](const StateSlice& slice, int64_t head, int64_t first, int64_t count) {
    const int64_t key_head = params.strided_heads ? head % params.key_heads : head / (params.heads / params.key_heads);
    const int64_t value = head * params.value_dim + first;
    const float* mixed = rows.mixed + slice.row_begin * width;
    const int64_t gate = int64_t{slice.row_begin} * params.heads + head;
    float* state = state_of(slice, params.state_offset) + value * params.key_dim;
    if (slice.position_begin == 0) std::fill_n(state, count * params.key_dim, 0.0F);
    const DeltaRuleCall call{.query = mixed + key_head * params.key_dim,
                             .key = mixed + keys + key_head * params.key_dim,
                             .value = mixed + 2 * keys + value,
                             .mixed_stride = width,
                             .decay = rows.alpha + gate * params.head_decays(),
                             .decay_stride = params.decays(),
                             .channel_decay = params.channel_decay,
                             .beta = rows.beta + gate,
                             .beta_stride = params.heads,
                             .out = rows.out + int64_t{slice.row_begin} * params.heads * params.value_dim + value,
                             .out_stride = int64_t{params.heads} * params.value_dim,
                             .state = state,
                             .key_dim = params.key_dim,
                             .rows = static_cast<int32_t>(count)};
    run_rows(kernels_.delta_rule, call, slice, count * params.key_dim);
  };
  run_blocks(team_, blocks, params.key_dim, slices, body);
}

void RecurrentOp::scan(const ScanParams& params, std::span<const StateSlice> slices, const ScanRows& rows) {
  CAIRN_DCHECK(params.heads % params.groups == 0);
  const int64_t all = rows_of(slices) * params.heads;
  team_.run_items(all, kGateNs, params.heads, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i % params.heads;
      const double step = softplus(static_cast<double>(rows.steps[i] + params.time_bias[head]));
      rows.steps[i] = static_cast<float>(step);
      rows.decays[i] = static_cast<float>(std::exp(static_cast<double>(params.rate[head]) * step));
    }
  });
  const int64_t width = params.mixed_width(), inner = int64_t{params.heads} * params.head_dim;
  const StateBlocks blocks(params.heads, params.head_dim, params.state_dim);
  CAIRN_DCHECK(params.state_dim <= kStateBlock);
  const auto body = [&](const StateSlice& slice, int64_t head, int64_t first, int64_t count) {
    const int64_t group = head / (params.heads / params.groups);
    const int64_t x = head * params.head_dim + first;
    const float* mixed = rows.mixed + slice.row_begin * width;
    const int64_t gate = int64_t{slice.row_begin} * params.heads + head;
    float* state = state_of(slice, params.state_offset) + x * params.state_dim;
    if (slice.position_begin == 0) std::fill_n(state, count * params.state_dim, 0.0F);
    const ScanCall call{.x = mixed + x,
                        .b = mixed + inner + group * params.state_dim,
                        .c = mixed + inner + (params.groups + group) * params.state_dim,
                        .mixed_stride = width,
                        .step = rows.steps + gate,
                        .decay = rows.decays + gate,
                        .gate_stride = params.heads,
                        .skip = params.skip[head],
                        .out = rows.out + slice.row_begin * inner + x,
                        .out_stride = inner,
                        .state = state,
                        .state_dim = params.state_dim,
                        .rows = static_cast<int32_t>(count)};
    run_rows(kernels_.scan, call, slice, count * params.state_dim);
  };
  run_blocks(team_, blocks, params.state_dim, slices, body);
}

void RecurrentOp::gated_norm(const GatedNormParams& params, const float* gates, int64_t rows, float* x) {
  CAIRN_DCHECK(params.activation == Activation::kSilu || params.activation == Activation::kSigmoid);
  const auto act = rows_.gate[static_cast<size_t>(params.activation)];
  const double group_ns = kSiluNs * 2 * static_cast<double>(params.cols);
  team_.run_items(rows * params.groups, group_ns, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float* group = x + i * params.cols;
      const float* weight = params.weight + i % params.groups * params.cols;
      const float* gate = gates + i * params.cols;
      if (params.order == GateOrder::kGateFirst) act(gate, group, params.cols, group);
      rows_.rms_norm(group, weight, params.epsilon, params.cols, group);
      if (params.order == GateOrder::kNormFirst) act(gate, group, params.cols, group);
    }
  });
}

}  // namespace cairn::kernels::cpu
