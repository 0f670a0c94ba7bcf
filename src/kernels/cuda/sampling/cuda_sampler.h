/// SamplerOperations of the CUDA backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/sampler_operations.h"
#include "kernels/workspace_sizes.h"

namespace cairn::cuda {

class CudaSampler final : public SamplerOperations {
 public:
  /// Both are the backend's, which outlives this and reserves `arguments`.
  CudaSampler(Stream& stream, StagingRing& arguments) : stream_(stream), arguments_(arguments) {}

  /// Bytes that the first reserve() takes.
  static int64_t workspace_bytes(const WorkspaceSizes& sizes);
  /// Bytes of the largest argument.
  static int64_t argument_bytes(const WorkspaceSizes& sizes);
  /// Errors: kOutOfMemory.
  Result<void> reserve(const WorkspaceSizes& sizes);

  void sample(float* logits, int64_t vocabulary, std::span<const SampleRequest> samples,
              std::span<const LogitChange> changes, std::span<SampleResult> sampled) override;

 private:
  /// Maximum changes of one launch: as many as the staging ring holds without growing.
  static constexpr int64_t kChangesAtOnce = int64_t{1} << 15;
  static_assert(kChangesAtOnce >= kSampleChangesMax);

  Stream& stream_;
  StagingRing& arguments_;
  Buffer sampled_;  // [sample_rows]
  Buffer parts_;    // RowParts of [sample_rows]
  Buffer changed_;  // [kChangesAtOnce], logits before they were changed
};

}  // namespace cairn::cuda
