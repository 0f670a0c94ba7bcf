/// CompressorOperations of the CUDA backend.
#pragma once

#include <span>

#include "kernels/compressor_operations.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/batch_metadata.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"

namespace cairn::kernels::cuda {

class CudaCompressor final : public CompressorOperations {
 public:
  /// All arguments are the backend's, which outlives this and reserves `places` and `arguments`.
  CudaCompressor(Stream& stream, StagingRing& arguments, BatchMetadata& places)
      : stream_(stream), arguments_(arguments), places_(places) {}

  void compress(const CompressorParams& params, const KvView& values, const KvView& scores,
                std::span<const AttentionSlice> slices, float* out) override {
    BatchMetadata::Run run;
    for (places_.begin(slices); places_.next(stream_, arguments_, run);) {
      const int64_t before = BatchMetadata::completed(slices, run.first, params.ratio);
      cuda::compress(stream_.launches(), params, values, scores, run.rows, out + before * params.dim);
      stream_.launched("compress");
    }
  }
  void round_fp8(float* x, int64_t rows, int64_t stride, int32_t dims) override {
    cuda::round_fp8(stream_.launches(), x, rows, stride, dims);
    stream_.launched("round_fp8");
  }
  void hadamard_fp4(float* x, int64_t rows, int32_t dims) override {
    cuda::hadamard_fp4(stream_.launches(), x, rows, dims);
    stream_.launched("hadamard_fp4");
  }

 private:
  Stream& stream_;
  StagingRing& arguments_;
  BatchMetadata& places_;
};

}  // namespace cairn::kernels::cuda
