/// Layers that keep a state of fixed size instead of keys and values: short causal convolutions, the gated delta rule,
/// and the state-space scan of Mamba-2. Part of the interface of kernels/backend.h.
///
/// A state belongs to one sequence and one layer and lies in memory of the backend, as float32; its parts begin at
/// multiples of 64 bytes (state_part_bytes). Every row changes it, one after the other and in the same way whatever
/// step the row is in: nothing is computed in chunks. Each state is read and written once per call. Rows at position 0
/// begin with a state of zeros, whatever is in memory.
///
/// Rows that are drafts see the state as those before them leave it, but leave none in memory: a call with the same
/// inputs for the drafts that turned out to be right, as rows that are no drafts, makes the state behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host_device.h"
#include "kernels/operation_params.h"

namespace cairn::kernels {

/// Rows [row_begin, row_begin + rows) of a batch belong to one sequence, at positions position_begin, +1, ... The
/// slices of a call follow each other without gaps, from row 0.
struct StateSlice {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t position_begin = 0;
  std::byte* state = nullptr;  ///< of the layer: parameters say where in it an operation's part begins
  int32_t drafts = 0;          ///< so many of the last rows are drafts

  int32_t rows_kept() const { return rows - drafts; }
};

/// Bytes of a part of a state.
constexpr int64_t state_part_bytes(int64_t floats) {
  constexpr int64_t kAlignment = 64;
  return (floats * static_cast<int64_t>(sizeof(float)) + kAlignment - 1) / kAlignment * kAlignment;
}

/// Most taps of a convolution.
inline constexpr int32_t kConvolutionTapsMax = 16;

/// Each channel is convolved by itself. The state is the window, the last `taps` - 1 rows of input: [taps - 1,
/// channels].
struct ConvolutionParams {
  int32_t taps = 0;
  int64_t channels = 0;
  const float* weights = nullptr;  ///< [taps, channels]; the last tap meets the row itself
  const float* bias = nullptr;     ///< [channels], or null
  bool silu = false;               ///< whether silu follows
  int64_t state_offset = 0;        ///< bytes from the layer's state to the part
};

/// [rows, channels] each.
struct ConvolutionRows {
  float* x = nullptr;
  const float* input_factors = nullptr;   ///< multiply x, in place; or null
  const float* output_factors = nullptr;  ///< multiply out; or null
  float* out = nullptr;                   ///< apart from all others
};

/// Gated DeltaNet and Kimi Delta Attention. Each value head has a matrix [value_dim, key_dim] as state, all one after
/// the other, and uses the query and key of one of the key heads.
struct DeltaRuleParams {
  int32_t key_heads = 0;
  int32_t heads = 0;  ///< of values; a multiple of key_heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool strided_heads = false;        ///< head h uses key head h % key_heads, otherwise h / (heads / key_heads)
  bool channel_decay = false;        ///< each element of a key has a decay of its own, not each head (Kimi)
  float epsilon = 0;                 ///< of the lengths that queries and keys are divided by
  const float* rate = nullptr;       ///< [heads], at most 0
  const float* time_bias = nullptr;  ///< [decays()]
  int64_t state_offset = 0;

  CAIRN_HOST_DEVICE constexpr int64_t mixed_width() const {
    return 2 * int64_t{key_heads} * key_dim + int64_t{heads} * value_dim;
  }
  CAIRN_HOST_DEVICE constexpr int64_t head_decays() const { return channel_decay ? key_dim : 1; }
  /// Factors of the states that a row has.
  CAIRN_HOST_DEVICE constexpr int64_t decays() const { return heads * head_decays(); }
};

struct DeltaRuleRows {
  float* mixed = nullptr;  ///< [rows, mixed_width()]: queries, keys, values; the first two are normalised in place
  /// [rows, decays()]; becomes exp(rate * softplus(alpha + time_bias)), the factor of the state, or of its columns.
  float* alpha = nullptr;
  float* beta = nullptr;  ///< [rows, heads]; becomes its sigmoid, the share of the error that is corrected
  float* out = nullptr;   ///< [rows, heads * value_dim]
};

/// Mamba-2. Each head has a matrix [head_dim, state_dim] as state, all one after the other.
struct ScanParams {
  int32_t heads = 0;
  int32_t groups = 0;  ///< of B and C; divides heads, and head h is of group h / (heads / groups)
  int32_t head_dim = 0;
  int32_t state_dim = 0;
  const float* rate = nullptr;       ///< [heads], at most 0
  const float* skip = nullptr;       ///< [heads], how much of the input is added to the output
  const float* time_bias = nullptr;  ///< [heads]
  int64_t state_offset = 0;

  CAIRN_HOST_DEVICE constexpr int64_t mixed_width() const {
    return int64_t{heads} * head_dim + 2 * int64_t{groups} * state_dim;
  }
};

struct ScanRows {
  const float* mixed = nullptr;  ///< [rows, mixed_width()]: x, B, C
  float* steps = nullptr;        ///< [rows, heads]; becomes softplus(steps + time_bias)
  float* decays = nullptr;       ///< [rows, heads], for exp(rate * steps)
  float* out = nullptr;          ///< [rows, heads * head_dim]
};

/// Where the gate of a normalised row acts.
enum class GateOrder {
  kNormFirst,  ///< norm(x) * act(gate)
  kGateFirst,  ///< norm(x * act(gate))
};

/// RMS norm of neighbouring elements, together with a gate.
struct GatedNormParams {
  GateOrder order = GateOrder::kNormFirst;
  Activation activation = Activation::kSilu;  ///< of the gate: that or kSigmoid
  int64_t cols = 0;                           ///< elements that are normalised together
  int64_t groups = 1;                         ///< how many such there are before weights repeat
  const float* weight = nullptr;              ///< [groups, cols]
  float epsilon = 0;
};

/// Conventions as in Backend.
class RecurrentOperations {
 public:
  virtual ~RecurrentOperations() = default;
  /// out[t] = bias + the sum over taps j of weights[j] * x[t - taps + 1 + j]; rows before the slice come from the
  /// window, which then holds the last ones of both.
  virtual void convolve(const ConvolutionParams& params, std::span<const StateSlice> slices,
                        const ConvolutionRows& rows) = 0;
  /// Per head, with q and k of unit length and q over sqrt(key_dim): S = S alpha; d = beta (v - S k); S = S + d k^T;
  /// out = S q.
  virtual void delta_rule(const DeltaRuleParams& params, std::span<const StateSlice> slices,
                          const DeltaRuleRows& rows) = 0;
  /// Per head: S = decay S + step x B^T; out = S C + skip x.
  virtual void scan(const ScanParams& params, std::span<const StateSlice> slices, const ScanRows& rows) = 0;
  /// x [rows, groups * cols], in place, by gates of the same shape.
  virtual void gated_norm(const GatedNormParams& params, const float* gates, int64_t rows, float* x) = 0;
};

}  // namespace cairn::kernels
