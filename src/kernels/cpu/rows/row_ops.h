/// Operations on rows of float32 of the CPU dispatch table: everything but matrix products and attention.
///
/// Called with one row or with a range of a longer one, on any thread; they allocate nothing. What an element becomes
/// does not depend on where a range begins or ends, except in the operations over a whole row (norms, softmax),
/// whose order of additions depends on its length alone.
#pragma once

#include <cstdint>

#include "kernels/activation.h"

namespace cairn::kernels::cpu {

struct RowKernels {
  /// out = x / sqrt(mean(x^2) + epsilon) * weight, [cols]; weight may be null for 1, out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t cols, float* out);
  /// out = (x - mean) / sqrt(variance + epsilon) * weight + bias, [cols]; bias may be null for 0, out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, int64_t cols, float* out);
  /// Backend::gate, by the number of the Activation; up may be null for 1, out may be an input.
  void (*gate[kActivations])(const float* gate, const float* up, int64_t n, float* out);
  /// x += scale * y.
  void (*add)(float* x, const float* y, int64_t n, float scale);
  /// x *= factor.
  void (*scale)(float* x, int64_t n, float factor);
  /// x *= sigmoid(gate).
  void (*sigmoid_scale)(float* x, int64_t n, float gate);
  /// x *= scale, then cap * tanh(x / cap) if cap > 0.
  void (*scale_and_softcap)(float* x, int64_t n, float scale, float cap);
  /// x -= scale * direction * (direction . x).
  void (*steer)(float* x, const float* direction, int64_t n, float scale);
  /// x = min(max(x, least), most).
  void (*clamp)(float* x, int64_t n, float least, float most);
  /// out[c] = sum over j, in order, of weights[j] * y[j, c]; y [used, cols].
  void (*weighted_sum)(const float* y, const float* weights, int32_t used, int64_t cols, float* out);
  /// out[c] = sum over j of softmax over j of (scores[j][c] + biases[j][c]) * values[j][c], [n]; count >= 1.
  void (*softmax_pool)(const float* const* values, const float* const* scores, const float* const* biases,
                       int32_t count, int64_t n, float* out);
  /// out = softmax(x); out may be x.
  void (*softmax)(const float* x, int64_t n, float* out);
  /// Rotates the first `dims` elements of each of `heads` heads, `head_dim` apart, in place: pairs (0,1), (2,3), ... by
  /// the (cosine, sine) pairs of `table` [dims].
  void (*rope_adjacent)(const float* table, int32_t dims, float* x, int32_t heads, int32_t head_dim);
  /// Rotates like rope_adjacent, but pairs (0, dims/2), (1, dims/2 + 1), ...
  void (*rope_halves)(const float* table, int32_t dims, float* x, int32_t heads, int32_t head_dim);
  /// Rounds to binary16, to nearest, ties to even; numbers that are too large become the largest finite number, not
  /// infinity.
  void (*to_half)(const float* x, int64_t n, uint16_t* out);
  /// Rounds to bfloat16, to nearest, ties to even; infinities and NaN are kept.
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  /// Quantises x [n], n <= 32, to int8 values [n] in [-127, 127], to nearest; returns their binary16 scale: the largest
  /// magnitude / 127, at most 65504. The values are relative to the rounded scale. A NaN makes the scale NaN.
  uint16_t (*to_q8_0)(const float* x, int64_t n, int8_t* values);
};

extern const RowKernels kGenericRows;
#if defined(__x86_64__)
extern const RowKernels kAvx2Rows;
extern const RowKernels kAvx512Rows;
#elif defined(__aarch64__)
extern const RowKernels kNeonRows;
#endif

}  // namespace cairn::kernels::cpu
