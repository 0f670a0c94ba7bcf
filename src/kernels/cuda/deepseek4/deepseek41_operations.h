/// Deepseek41Operations of the CUDA backend.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/deepseek41_operations.h"

namespace cairn::kernels::cuda {

class CudaDeepseek41 final : public Deepseek41Operations {
 public:
  /// `stream` is the backend's, which outlives this.
  explicit CudaDeepseek41(Stream& stream) : stream_(stream) {}

  void add_engram(const EngramParams& params, const float* keys_value, int64_t rows, int64_t cols, float* x) override {
    cuda::add_engram(stream_.launches(), params, keys_value, rows, cols, x);
    stream_.launched("add_engram");
  }
  void round_rows(SimulatedRounding rounding, float* x, int64_t rows, int32_t dims) override {
    cuda::round_rows(stream_.launches(), rounding, x, rows, dims);
    stream_.launched("round_rows");
  }

 private:
  Stream& stream_;
};

}  // namespace cairn::kernels::cuda
