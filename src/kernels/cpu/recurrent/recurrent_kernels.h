/// Operations on recurrent states of the CPU dispatch table: see kernels/recurrent_operations.h.
///
/// Called for some rows of a head's state, or some channels, on any thread; they allocate nothing. What a row of a
/// state or a channel becomes depends on nothing beside it in the call.
#pragma once

#include <cstdint>

namespace cairn::kernels::cpu {

/// Some channels of one row.
struct ConvolutionCall {
  const float* const* inputs = nullptr;  ///< [taps], the last is the row itself
  const float* weights = nullptr;        ///< rows of taps, weight_stride apart
  int64_t weight_stride = 0;
  const float* bias = nullptr;  ///< or null
  int32_t taps = 0;
  bool silu = false;
};

/// Some rows of a head's state [rows, key_dim], over `tokens` rows of a batch, whose arrays are given at their first
/// and with the distance to the next.
struct DeltaRuleCall {
  const float* query = nullptr;
  const float* key = nullptr;
  const float* value = nullptr;  ///< [rows]
  int64_t mixed_stride = 0;      ///< of query, key and value
  const float* decay = nullptr;  ///< one, or [key_dim] with channel_decay
  int64_t decay_stride = 0;
  bool channel_decay = false;
  const float* beta = nullptr;
  int64_t beta_stride = 0;
  float* out = nullptr;  ///< [rows]
  int64_t out_stride = 0;
  float* state = nullptr;
  int32_t key_dim = 0;
  int32_t rows = 0;
  int32_t tokens = 0;

  /// Moves all arrays but the state so many tokens on.
  void advance(int64_t count) {
    query += count * mixed_stride;
    key += count * mixed_stride;
    value += count * mixed_stride;
    decay += count * decay_stride;
    beta += count * beta_stride;
    out += count * out_stride;
  }
};

/// Some rows of a state [rows, state_dim] of the scan, over `tokens` rows of a batch, given as in DeltaRuleCall.
struct ScanCall {
  const float* x = nullptr;  ///< [rows]
  const float* b = nullptr;
  const float* c = nullptr;
  int64_t mixed_stride = 0;  ///< of x, b and c
  const float* step = nullptr;
  const float* decay = nullptr;
  int64_t gate_stride = 0;  ///< of step and decay
  float skip = 0;
  float* out = nullptr;  ///< [rows]
  int64_t out_stride = 0;
  float* state = nullptr;
  int32_t state_dim = 0;
  int32_t rows = 0;
  int32_t tokens = 0;

  void advance(int64_t count) {
    x += count * mixed_stride;
    b += count * mixed_stride;
    c += count * mixed_stride;
    step += count * gate_stride;
    decay += count * gate_stride;
    out += count * out_stride;
  }
};

struct RecurrentKernels {
  void (*convolve)(const ConvolutionCall& call, int64_t n, float* out);
  void (*multiply)(float* x, const float* factors, int64_t n);
  /// x = exp(rate * softplus(x + bias)).
  void (*decay)(float* x, const float* bias, float rate, int64_t n);
  void (*delta_rule)(const DeltaRuleCall& call);
  void (*scan)(const ScanCall& call);
};

extern const RecurrentKernels kGenericRecurrent;
#if defined(__x86_64__)
extern const RecurrentKernels kAvx2Recurrent;
extern const RecurrentKernels kAvx512Recurrent;
#elif defined(__aarch64__)
extern const RecurrentKernels kNeonRecurrent;
#endif

}  // namespace cairn::kernels::cpu
