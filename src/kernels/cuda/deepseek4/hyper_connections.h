/// StreamOperations of the CUDA backend.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/stream_operations.h"

namespace cairn::cuda {

class CudaStreams final : public StreamOperations {
 public:
  /// The backend's, which outlives this.
  explicit CudaStreams(Stream& stream) : stream_(stream) {}

  void mix_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override {
    cuda::mix_streams(stream_.launches(), params, logits, rows, shares);
    stream_.launched("mix_streams");
  }
  void gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override {
    cuda::gate_streams(stream_.launches(), params, logits, rows, shares);
    stream_.launched("gate_streams");
  }
  void collapse_streams(const float* x, const float* shares, int32_t stride, int32_t streams, int64_t rows,
                        int64_t cols, float* out) override {
    weighted_sums(stream_.launches(), x, shares, stride, streams, rows, cols, out);
    stream_.launched("collapse_streams");
  }
  void expand_streams(const float* x, const float* y, const float* shares, int32_t streams, int64_t rows, int64_t cols,
                      float* out) override {
    cuda::expand_streams(stream_.launches(), x, y, shares, streams, rows, cols, out);
    stream_.launched("expand_streams");
  }

 private:
  Stream& stream_;
};

}  // namespace cairn::cuda
