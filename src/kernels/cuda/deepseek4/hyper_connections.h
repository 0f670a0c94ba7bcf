/// HyperConnectionOperations of the CUDA backend.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/hyper_connection_operations.h"

namespace cairn::kernels::cuda {

class CudaHyperConnections final : public HyperConnectionOperations {
 public:
  /// `stream` is the backend's, which outlives this.
  explicit CudaHyperConnections(Stream& stream) : stream_(stream) {}

  void hyper_connection_weights(const StreamParams& params, const float* logits, int64_t rows, float* shares) override {
    cuda::hyper_connection_weights(stream_.launches(), params, logits, rows, shares);
    stream_.launched("hyper_connection_weights");
  }
  void gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override {
    cuda::gate_streams(stream_.launches(), params, logits, rows, shares);
    stream_.launched("gate_streams");
  }
  void hyper_connection_read(const float* x, const float* shares, int32_t stride, int32_t streams, int64_t rows,
                             int64_t cols, float* out) override {
    weighted_sums(stream_.launches(), x, shares, stride, streams, rows, cols, out);
    stream_.launched("hyper_connection_read");
  }
  void hyper_connection_write(const float* x, const float* y, const float* shares, int32_t streams, int64_t rows,
                              int64_t cols, float* out) override {
    cuda::hyper_connection_write(stream_.launches(), x, y, shares, streams, rows, cols, out);
    stream_.launched("hyper_connection_write");
  }

 private:
  Stream& stream_;
};

}  // namespace cairn::kernels::cuda
