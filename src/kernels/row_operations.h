/// Norms and other operations on rows of activations, element by element. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/operation_params.h"

namespace cairn::kernels {

/// `out` may be the input. Other conventions as in Backend.
class RowOperations {
 public:
  virtual ~RowOperations() = default;
  /// out = x / sqrt(mean(x^2) + epsilon) * weight, over rows of `cols`. weight [cols], or null for 1.
  virtual void rms_norm(const float* x, const float* weight, float epsilon, int64_t rows, int64_t cols, float* out) = 0;
  /// x += scale * y, then rms_norm of x.
  virtual void add_rms_norm(float* x, const float* y, float scale, const float* weight, float epsilon, int64_t rows,
                            int64_t cols, float* out) = 0;
  /// out = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, over rows of `cols`. weight and bias [cols];
  /// bias may be null for 0.
  virtual void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int64_t rows,
                          int64_t cols, float* out) = 0;
  /// layer_norm without bias, of each of `heads` heads of a row by its own weight: x [rows, heads, cols], weight
  /// [heads, cols].
  virtual void layer_norm_heads(const float* x, const float* weight, float epsilon, int64_t rows, int64_t heads,
                                int64_t cols, float* out) = 0;
  /// act(gate) * up, element by element, or kClampedSwiglu's function of both; up may be null for 1.
  virtual void gate(Activation activation, const float* gate, const float* up, int64_t rows, int64_t cols,
                    float* out) = 0;
  /// x += scale * y, n elements.
  virtual void add(float* x, const float* y, int64_t n, float scale) = 0;
  /// x[r, :] *= factors[r]; factors in host memory.
  virtual void scale_rows(float* x, std::span<const float> factors, int64_t cols) = 0;
  /// x[r, :] *= sigmoid(gates[r]); gates [rows] in backend memory.
  virtual void sigmoid_scale_rows(float* x, const float* gates, int64_t rows, int64_t cols) = 0;
  /// x *= scale, then cap * tanh(x / cap) if cap > 0; n elements.
  virtual void scale_and_softcap(float* x, int64_t n, float scale, float cap) = 0;
  /// x[r, :] -= scale * direction * (direction . x[r, :]); direction [cols].
  virtual void steer(float* x, const float* direction, float scale, int64_t rows, int64_t cols) = 0;
  /// x = min(max(x, least), most), n elements.
  virtual void clamp(float* x, int64_t n, float least, float most) = 0;
  /// out[i, :] = x[rows[i], :]; row numbers in host memory.
  virtual void gather_rows(const float* x, std::span<const int32_t> rows, int64_t cols, float* out) = 0;
  /// to[r * to_stride + c] = from[r * from_stride + c], c < cols; the two do not overlap.
  virtual void copy_columns(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                            int64_t cols) = 0;
};

}  // namespace cairn::kernels
