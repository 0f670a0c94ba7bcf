/// Residual streams that are mixed before and after every block: hyper-connections (Zhu and others 2024), whose mixing
/// matrix is made doubly stochastic (DeepSeek V4). Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>

namespace cairn::kernels {

inline constexpr int32_t kStreamsMax = 8;

/// Columns of a row of shares: what each stream gives to the block's input, what it takes of the block's output, and
/// [from, to] what goes from stream to stream.
constexpr int32_t stream_shares(int32_t streams) { return streams * (2 + streams); }

struct StreamParams {
  int32_t streams = 0;
  int32_t rounds = 0;            ///< of normalising rows and columns in turn (Sinkhorn); the first takes a softmax
  float epsilon = 0;             ///< added to shares of the input, and wherever a sum divides
  const float* scale = nullptr;  ///< [3], one for each kind of share
  const float* base = nullptr;   ///< [stream_shares]
};

/// Conventions as in Backend.
class HyperConnectionOperations {
 public:
  virtual ~HyperConnectionOperations() = default;

  /// Shares [rows, stream_shares] from logits of the same shape.
  virtual void hyper_connection_weights(const StreamParams& params, const float* logits, int64_t rows,
                                        float* shares) = 0;
  /// The shares of the input alone, [rows, streams], from logits of that shape; scale [1] and base [streams].
  virtual void gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) = 0;
  /// out[r] = sum over i of shares[r * stride + i] * x[r, i]; x [rows, streams, cols].
  virtual void hyper_connection_read(const float* x, const float* shares, int32_t stride, int32_t streams, int64_t rows,
                                     int64_t cols, float* out) = 0;
  /// out[r, to] = takes[to] * y[r] + sum over `from` of mix[from, to] * x[r, from]; out is not x.
  virtual void hyper_connection_write(const float* x, const float* y, const float* shares, int32_t streams,
                                      int64_t rows, int64_t cols, float* out) = 0;
};

}  // namespace cairn::kernels
