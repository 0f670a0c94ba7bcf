/// SamplerOperations of the CUDA backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/sampler_operations.h"
#include "kernels/workspace_sizes.h"

namespace cairn::kernels::cuda {

class CudaSampler final : public SamplerOperations {
 public:
  /// The stream and the ring are the backend's, which outlives this and reserves `arguments`.
  CudaSampler(Stream& stream, StagingRing& arguments) : stream_(stream), arguments_(arguments) {}

  /// Bytes that the first reserve() takes.
  static int64_t workspace_bytes(const WorkspaceSizes& sizes);
  /// Bytes of the largest argument.
  static int64_t argument_bytes(const WorkspaceSizes& sizes);
  /// Errors: kOutOfMemory.
  Result<void> reserve(const WorkspaceSizes& sizes);

  void sample(float* logits, int64_t vocabulary, std::span<const SampleRequest> samples,
              std::span<const LogitChange> changes, std::span<SampleResult> sampled) override;
  void mask(float* logits, int64_t vocabulary, std::span<const AllowedTokens> rows) override;

 private:
  /// Maximum changes of one launch: as many as the staging ring holds without growing.
  static constexpr int64_t kChangesAtOnce = int64_t{1} << 15;
  static_assert(kChangesAtOnce >= kSampleChangesMax);
  /// Maximum bytes of the words of rows that are masked by one launch; a row of any vocabulary has fewer.
  static constexpr int64_t kMaskBytes = int64_t{1} << 18;
  static_assert(kMaskBytes >= kSampleVocabularyMax / 8);

  Stream& stream_;
  StagingRing& arguments_;
  std::vector<uint64_t> words_;  // scratch
  std::vector<int32_t> rows_;    // scratch
  Buffer sampled_;               // [sample_rows]
  Buffer here_;                  // the same in pinned host memory
  Buffer parts_;                 // RowParts of [sample_rows]
  Buffer changed_;               // [kChangesAtOnce], logits before they were changed
};

}  // namespace cairn::kernels::cuda
