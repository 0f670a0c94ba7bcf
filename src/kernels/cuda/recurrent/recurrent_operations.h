/// RecurrentOperations of the CUDA backend.
#pragma once

#include <algorithm>
#include <span>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/recurrent_operations.h"

namespace cairn::kernels::cuda {

class CudaRecurrent final : public RecurrentOperations {
 public:
  /// All arguments are the backend's, which outlives this and reserves `arguments`.
  CudaRecurrent(Stream& stream, StagingRing& arguments) : stream_(stream), arguments_(arguments) {}

  /// Maximum bytes of an argument: a slice for each row.
  static int64_t argument_bytes(int64_t rows) { return rows * static_cast<int64_t>(sizeof(StateSlice)); }

  void convolve(const ConvolutionParams& params, std::span<const StateSlice> slices,
                const ConvolutionRows& rows) override {
    if (slices.empty()) return;
    cuda::convolve(stream_.launches(), params, sent(slices), rows);
    stream_.launched("convolve");
  }
  void delta_rule(const DeltaRuleParams& params, std::span<const StateSlice> slices,
                  const DeltaRuleRows& rows) override {
    if (slices.empty()) return;
    cuda::delta_rule(stream_.launches(), params, sent(slices), rows);
    stream_.launched("delta_rule");
  }
  void scan(const ScanParams& params, std::span<const StateSlice> slices, const ScanRows& rows) override {
    if (slices.empty()) return;
    cuda::scan(stream_.launches(), params, sent(slices), rows);
    stream_.launched("scan");
  }
  void gated_norm(const GatedNormParams& params, const float* gates, int64_t rows, float* x) override {
    if (rows == 0) return;
    cuda::gated_norm(stream_.launches(), params, gates, rows, x);
    stream_.launched("gated_norm");
  }

 private:
  StateSlices sent(std::span<const StateSlice> slices) {
    StateSlices there{.count = static_cast<int32_t>(slices.size())};
    for (const StateSlice& slice : slices) there.rows_max = std::max(there.rows_max, slice.rows);
    there.rows = int64_t{slices.back().row_begin} + slices.back().rows;
    there.at = static_cast<const StateSlice*>(
        arguments_.put(stream_, slices.data(), static_cast<int64_t>(slices.size_bytes())));
    return there;
  }

  Stream& stream_;
  StagingRing& arguments_;
};

}  // namespace cairn::kernels::cuda
