// Layers that keep a state of fixed size: see kernels/recurrent_operations.h.
//
// A row of a head's state belongs to eight neighbouring lanes, which keep it in registers over all rows of a slice, so
// that a state is read and written once per call. Rows of a state know nothing of each other: each sum goes over one
// row alone, in an order that follows from its length.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/elementwise/map.cuh"
#include "kernels/cuda/elementwise/reduce.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {
namespace {

constexpr int kBlock = 128;
constexpr int kWarps = kBlock / kWarp;

__device__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// ---- Convolutions ----

// Slices of up to so many rows are walked by a thread for each channel; others have a thread for each row and channel.
constexpr int32_t kWalkedRowsMax = 4;

struct Product {
  __device__ float operator()(float a, float b) const { return __fmul_rn(a, b); }
};

struct ConvolutionCall {
  ConvolutionParams params;
  StateSlices slices;
  const float* x = nullptr;
  const float* factors = nullptr;  // of the output, or null
  float* out = nullptr;

  __device__ float* window(const StateSlice& slice) const {
    return reinterpret_cast<float*>(slice.state + params.state_offset);
  }
  // Row `row` of the slice, of which those below zero lie in the window.
  __device__ float input(const StateSlice& slice, int32_t row, int64_t channel) const {
    if (row >= 0) return x[(int64_t{slice.row_begin} + row) * params.channels + channel];
    if (slice.position_begin == 0) return 0.0f;
    return window(slice)[(row + params.taps - 1) * params.channels + channel];
  }
  __device__ void convolve(const StateSlice& slice, int32_t row, int64_t channel) const {
    float total = params.bias == nullptr ? 0.0f : params.bias[channel];
    for (int32_t tap = 0; tap < params.taps; ++tap) {
      const float weight = params.weights[tap * params.channels + channel];
      total = __fmaf_rn(weight, input(slice, row - params.taps + 1 + tap, channel), total);
    }
    if (params.silu) total = silu(total);
    const int64_t place = (int64_t{slice.row_begin} + row) * params.channels + channel;
    out[place] = factors == nullptr ? total : __fmul_rn(total, factors[place]);
  }
  // The last rows of window and slice, without drafts, become the window. Rows of it that are read lie behind the one
  // that is written.
  __device__ void move_window(const StateSlice& slice, int64_t channel) const {
    const int32_t before = params.taps - 1, kept = slice.rows - slice.drafts;
    for (int32_t row = 0; row < before; ++row) {
      window(slice)[row * params.channels + channel] = input(slice, kept - before + row, channel);
    }
  }
};

// Blocks along x are channels, along y slices.
__global__ void __launch_bounds__(kBlock) walk_convolution_kernel(ConvolutionCall call) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t channel = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (channel >= call.params.channels) return;
  const StateSlice slice = call.slices.at[blockIdx.y];
  for (int32_t row = 0; row < slice.rows; ++row) call.convolve(slice, row, channel);
  call.move_window(slice, channel);
}

// The slice that row `row` of the batch belongs to.
__device__ const StateSlice& slice_of(const StateSlices& slices, int32_t row) {
  int32_t first = 0, last = slices.count - 1;
  while (first < last) {
    const int32_t middle = (first + last + 1) / 2;
    if (slices.at[middle].row_begin <= row) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return slices.at[first];
}

// Blocks along x are rows of the batch, along y channels.
__global__ void __launch_bounds__(kBlock) convolution_kernel(ConvolutionCall call) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t channel = int64_t{blockIdx.y} * kBlock + threadIdx.x;
  if (channel >= call.params.channels) return;
  const auto row = static_cast<int32_t>(blockIdx.x);
  const StateSlice slice = slice_of(call.slices, row);
  call.convolve(slice, row - slice.row_begin, channel);
}

__global__ void __launch_bounds__(kBlock) window_kernel(ConvolutionCall call) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t channel = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (channel >= call.params.channels) return;
  call.move_window(call.slices.at[blockIdx.y], channel);
}

// ---- Matrices as states ----

// A warp for each key head of a row: it divides the query and the key by their lengths, the query also by the root of
// its size, and makes factors of the gates of the head's share of the value heads.
__global__ void __launch_bounds__(kBlock)
    prepare_delta_kernel(DeltaRuleParams params, DeltaRuleRows rows, int64_t count) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t number = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (number >= count * params.key_heads) return;
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int64_t row = number / params.key_heads, head = number % params.key_heads;
  const int32_t dim = params.key_dim;
  const float share = 1.0f / static_cast<float>(dim);
  float* query = rows.mixed + row * params.mixed_width() + head * dim;
  for (int part = 0; part < 2; ++part) {
    float* const x = query + int64_t{part} * params.key_heads * dim;
    float squares = 0;
    for (int32_t i = lane; i < dim; i += kWarp) squares = __fmaf_rn(x[i], x[i], squares);
    const float mean = __fmul_rn(warp_sum(squares), share);
    const float factor = __frsqrt_rn(__fadd_rn(mean, __fmul_rn(params.epsilon, share)));
    const float size = part == 0 ? share : __frsqrt_rn(static_cast<float>(dim));
    for (int32_t i = lane; i < dim; i += kWarp) x[i] = __fmul_rn(__fmul_rn(x[i], factor), size);
  }
  const int32_t own = params.heads / params.key_heads;
  for (int32_t i = lane; i < own; i += kWarp) {
    const int64_t gate = row * params.heads + head * own + i;
    rows.beta[gate] = sigmoid(rows.beta[gate]);
  }
  const int64_t decays = params.head_decays(), first = head * own * decays;
  float* const alpha = rows.alpha + row * params.decays();
  for (int64_t i = first + lane; i < first + own * decays; i += kWarp) {
    const float time = softplus(__fadd_rn(alpha[i], params.time_bias[i]));
    alpha[i] = expf(__fmul_rn(params.rate[i / decays], time));
  }
}

__global__ void __launch_bounds__(kBlock) prepare_scan_kernel(ScanParams params, ScanRows rows, int64_t count) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t number = int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (number >= count * params.heads) return;
  const int64_t head = number % params.heads;
  const float step = softplus(__fadd_rn(rows.steps[number], params.time_bias[head]));
  rows.steps[number] = step;
  rows.decays[number] = expf(__fmul_rn(params.rate[head], step));
}

// Both updates of a row s of a state: s = decay s, then s = s + change key, and the output is s query. Of the delta
// rule the change is a share of what the row predicted wrongly, of the scan a share of the value itself.
struct StateCall {
  StateSlices slices;
  int64_t state_offset = 0;
  int32_t heads = 0;
  int32_t head_rows = 0;  // of a head's state
  int32_t dim = 0;        // of a row of it
  int32_t groups = 0;     // heads that have keys and queries
  bool strided_heads = false;
  const float* mixed = nullptr;  // [rows of the batch, width]
  int64_t width = 0;
  int64_t keys = 0;  // columns where they begin
  int64_t queries = 0;
  int64_t values = 0;
  const float* decays = nullptr;  // [rows of the batch, heads], or [.., heads, dim] where kDecay says so
  const float* shares = nullptr;  // [rows of the batch, heads]
  const float* skip = nullptr;    // [heads]: how much of the value is added to the output; or null
  float* out = nullptr;           // [rows of the batch, heads * head_rows]
};

constexpr int kLanes = 8;  // that share a row of a state
constexpr int kRowsPerBlock = kBlock / kLanes;

// What a lane has of a vector of `dim` elements: fours that are kLanes fours apart. With kWhole all lanes have the same
// number of them, at multiples of 16 bytes.
template <int kFours, bool kWhole>
struct Share {
  Four fours[kFours];

  static __device__ int32_t begin(int32_t lane, int i) { return (i * kLanes + lane) * 4; }
  __device__ void load(const float* from, int32_t dim, int32_t lane) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      fours[i] = load_four<kWhole>(from + begin(lane, i), dim - begin(lane, i));
    }
  }
  __device__ void store(float* to, int32_t dim, int32_t lane) const {
#pragma unroll
    for (int i = 0; i < kFours; ++i) store_four<kWhole>(fours[i], dim - begin(lane, i), to + begin(lane, i));
  }
  __device__ void scale(float by) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) fours[i].at[k] = __fmul_rn(fours[i].at[k], by);
    }
  }
  __device__ void scale(const Share& by) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) fours[i].at[k] = __fmul_rn(fours[i].at[k], by.fours[i].at[k]);
    }
  }
  __device__ void add(float factor, const Share& other) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) fours[i].at[k] = __fmaf_rn(factor, other.fours[i].at[k], fours[i].at[k]);
    }
  }
  /// The product of the whole vectors, in all of the row's lanes.
  __device__ float dot(const Share& other) const {
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[k] = __fmaf_rn(fours[i].at[k], other.fours[i].at[k], sums[k]);
    }
    return warp_sum<kLanes>(__fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3])));
  }
};

// How a state decays: as a whole, or each of its columns by itself.
enum class Decay { kHead, kChannel };

// What a row of the batch brings to a row of a state.
template <Decay kDecay, int kFours, bool kWhole>
struct StateInput {
  Share<kFours, kWhole> key, query;
  std::conditional_t<kDecay == Decay::kHead, float, Share<kFours, kWhole>> decay;
  float value, share;

  __device__ void load(const StateCall& call, int64_t batch_row, int64_t state_row, int32_t lane) {
    const auto head = static_cast<int32_t>(state_row / call.head_rows);
    const int32_t group = call.strided_heads ? head % call.groups : head / (call.heads / call.groups);
    const float* const mixed = call.mixed + batch_row * call.width;
    const int64_t gate = batch_row * call.heads + head;
    key.load(mixed + call.keys + int64_t{group} * call.dim, call.dim, lane);
    query.load(mixed + call.queries + int64_t{group} * call.dim, call.dim, lane);
    value = mixed[call.values + state_row];
    if constexpr (kDecay == Decay::kHead) {
      decay = call.decays[gate];
    } else {
      decay.load(call.decays + gate * call.dim, call.dim, lane);
    }
    share = call.shares[gate];
  }
};

// Blocks along x are rows of the states of all heads, along y slices.
template <bool kCorrects, Decay kDecay, int kFours, bool kWhole>
__global__ void __launch_bounds__(kBlock) state_kernel(StateCall call) {
  trigger_dependents();
  wait_for_dependencies();
  const StateSlice slice = call.slices.at[blockIdx.y];
  const auto lane = static_cast<int32_t>(threadIdx.x % kLanes);
  const int64_t rows = int64_t{call.heads} * call.head_rows;
  const int64_t number = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kLanes;
  // Lanes beyond the last row take part in the sums of their warp.
  const bool is_own = number < rows;
  const int64_t row = is_own ? number : rows - 1;
  float* const memory = reinterpret_cast<float*>(slice.state + call.state_offset) + row * call.dim;
  const float skip = call.skip == nullptr ? 0.0f : call.skip[row / call.head_rows];
  Share<kFours, kWhole> state{};
  if (slice.position_begin != 0) state.load(memory, call.dim, lane);
  StateInput<kDecay, kFours, kWhole> next;
  if (slice.rows > 0) next.load(call, slice.row_begin, row, lane);
  const int32_t kept = slice.rows - slice.drafts;
  for (int32_t i = 0; i < slice.rows; ++i) {
    if (i == kept && is_own) state.store(memory, call.dim, lane);
    const StateInput<kDecay, kFours, kWhole> input = next;
    const int64_t batch_row = int64_t{slice.row_begin} + i;
    if (i + 1 < slice.rows) next.load(call, batch_row + 1, row, lane);
    state.scale(input.decay);
    const float wrong = kCorrects ? __fsub_rn(input.value, state.dot(input.key)) : input.value;
    state.add(__fmul_rn(input.share, wrong), input.key);
    const float read = state.dot(input.query);
    if (is_own && lane == 0) {
      call.out[batch_row * rows + row] = call.skip == nullptr ? read : __fmaf_rn(skip, input.value, read);
    }
  }
  if (kept == slice.rows && is_own) state.store(memory, call.dim, lane);
}

constexpr int kFourElements = 4 * kLanes;  // of a vector, for each four of a lane

template <bool kCorrects, Decay kDecay, int kFours, bool kWhole>
void launch_state(LaunchQueue& stream, const StateCall& call) {
  const int64_t rows = int64_t{call.heads} * call.head_rows;
  const dim3 grid(blocks_of(rows, kRowsPerBlock, INT32_MAX), static_cast<unsigned>(call.slices.count));
  launch_dependent(state_kernel<kCorrects, kDecay, kFours, kWhole>, grid, kBlock, 0, stream, call);
}

template <bool kCorrects, Decay kDecay = Decay::kHead>
void update_states(LaunchQueue& stream, const StateCall& call) {
  CAIRN_CHECK(call.dim >= 1 && call.dim <= kStateDimMax && call.slices.count <= kGridMax);
  const bool whole = call.dim % kFourElements == 0 && call.width % 4 == 0 && aligned16(call.mixed) &&
                     call.keys % 4 == 0 && call.queries % 4 == 0 && (kDecay == Decay::kHead || aligned16(call.decays));
  if (whole && call.dim == 64) return launch_state<kCorrects, kDecay, 2, true>(stream, call);
  if (whole && call.dim == 128) return launch_state<kCorrects, kDecay, 4, true>(stream, call);
  if (whole && call.dim == 256) return launch_state<kCorrects, kDecay, 8, true>(stream, call);
  if (call.dim <= kFourElements) return launch_state<kCorrects, kDecay, 1, false>(stream, call);
  if (call.dim <= 4 * kFourElements) return launch_state<kCorrects, kDecay, 4, false>(stream, call);
  launch_state<kCorrects, kDecay, kStateDimMax / kFourElements, false>(stream, call);
}

// ---- Norms ----

// A block for each group of a row.
__global__ void __launch_bounds__(kBlock) gated_norm_kernel(GatedNormParams params, const float* gates, float* x) {
  trigger_dependents();
  wait_for_dependencies();
  const int64_t number = blockIdx.x;
  float* const values = x + number * params.cols;
  const float* const gate = gates + number * params.cols;
  const float* const weight = params.weight + number % params.groups * params.cols;
  const bool gate_first = params.order == GateOrder::kGateFirst;
  const bool is_silu = params.activation == Activation::kSilu;
  const auto act = [&](int64_t i) { return is_silu ? silu(gate[i]) : sigmoid(gate[i]); };
  const auto value = [&](int64_t i) { return gate_first ? __fmul_rn(act(i), values[i]) : values[i]; };
  float squares = 0;
  for (int64_t i = threadIdx.x; i < params.cols; i += kBlock) squares = __fmaf_rn(value(i), value(i), squares);
  squares = row_sum<kBlock>(squares);
  const float factor = __frsqrt_rn(__fadd_rn(squares / static_cast<float>(params.cols), params.epsilon));
  for (int64_t i = threadIdx.x; i < params.cols; i += kBlock) {
    const float normal = __fmul_rn(__fmul_rn(value(i), factor), weight[i]);
    values[i] = gate_first ? normal : __fmul_rn(act(i), normal);
  }
}

}  // namespace

void convolve(LaunchQueue& stream, const ConvolutionParams& params, const StateSlices& slices,
              const ConvolutionRows& rows) {
  CAIRN_DCHECK(params.taps >= 1 && params.taps <= kConvolutionTapsMax);
  const int64_t elements = slices.rows * params.channels;
  if (rows.input_factors != nullptr) map(stream, Product{}, rows.x, rows.input_factors, elements, rows.x);
  const ConvolutionCall call{params, slices, rows.x, rows.output_factors, rows.out};
  const unsigned channels = blocks_of(params.channels, kBlock, kGridMax);
  const auto count = static_cast<unsigned>(slices.count);
  if (slices.rows_max <= kWalkedRowsMax) {
    launch_dependent(walk_convolution_kernel, dim3(channels, count), kBlock, 0, stream, call);
    return;
  }
  launch_dependent(convolution_kernel, dim3(static_cast<unsigned>(slices.rows), channels), kBlock, 0, stream, call);
  launch_dependent(window_kernel, dim3(channels, count), kBlock, 0, stream, call);
}

void delta_rule(LaunchQueue& stream, const DeltaRuleParams& params, const StateSlices& slices,
                const DeltaRuleRows& rows) {
  CAIRN_DCHECK(params.heads % params.key_heads == 0);
  const unsigned blocks = blocks_of(slices.rows * params.key_heads, kWarps, INT32_MAX);
  launch_dependent(prepare_delta_kernel, dim3(blocks), kBlock, 0, stream, params, rows, slices.rows);
  const int64_t keys = int64_t{params.key_heads} * params.key_dim;
  const StateCall call{.slices = slices,
                       .state_offset = params.state_offset,
                       .heads = params.heads,
                       .head_rows = params.value_dim,
                       .dim = params.key_dim,
                       .groups = params.key_heads,
                       .strided_heads = params.strided_heads,
                       .mixed = rows.mixed,
                       .width = params.mixed_width(),
                       .keys = keys,
                       .queries = 0,
                       .values = 2 * keys,
                       .decays = rows.alpha,
                       .shares = rows.beta,
                       .out = rows.out};
  if (params.channel_decay) return update_states<true, Decay::kChannel>(stream, call);
  update_states<true>(stream, call);
}

void scan(LaunchQueue& stream, const ScanParams& params, const StateSlices& slices, const ScanRows& rows) {
  CAIRN_DCHECK(params.heads % params.groups == 0);
  const unsigned blocks = blocks_of(slices.rows * params.heads, kBlock, INT32_MAX);
  launch_dependent(prepare_scan_kernel, dim3(blocks), kBlock, 0, stream, params, rows, slices.rows);
  const int64_t inner = int64_t{params.heads} * params.head_dim;
  update_states<false>(stream, {.slices = slices,
                                .state_offset = params.state_offset,
                                .heads = params.heads,
                                .head_rows = params.head_dim,
                                .dim = params.state_dim,
                                .groups = params.groups,
                                .mixed = rows.mixed,
                                .width = params.mixed_width(),
                                .keys = inner,
                                .queries = inner + int64_t{params.groups} * params.state_dim,
                                .values = 0,
                                .decays = rows.decays,
                                .shares = rows.steps,
                                .skip = params.skip,
                                .out = rows.out});
}

void gated_norm(LaunchQueue& stream, const GatedNormParams& params, const float* gates, int64_t rows, float* x) {
  CAIRN_CHECK(params.activation == Activation::kSilu || params.activation == Activation::kSigmoid);
  const auto blocks = static_cast<unsigned>(rows * params.groups);
  launch_dependent(gated_norm_kernel, dim3(blocks), kBlock, 0, stream, params, gates, x);
}

}  // namespace cairn::kernels::cuda
