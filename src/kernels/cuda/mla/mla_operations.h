/// MlaOperations of the CUDA backend.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/cuda/runtime/batch_metadata.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/device_memory.h"
#include "kernels/mla_operations.h"
#include "kernels/workspace_sizes.h"

namespace cairn::kernels::cuda {

class CudaMla final : public MlaOperations {
 public:
  /// All arguments are the backend's, which outlives this and reserves `places` and `arguments`.
  CudaMla(Stream& stream, StagingRing& arguments, BatchMetadata& places)
      : stream_(stream), arguments_(arguments), places_(places) {}

  /// Called after `places` was reserved. Errors: kUnsupported (rows or queries that are too large), kOutOfMemory.
  Result<void> reserve(const WorkspaceSizes& sizes);
  static int64_t workspace_bytes(const WorkspaceSizes& sizes);
  void begin_step() { second_places_.begin_step(); }

  void store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) override;
  void load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) override;
  void select_topk(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
                   const float* q, const float* weights, int32_t* chosen) override;
  void attend_rows(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q,
                   float* out) override;

 private:
  Stream& stream_;
  StagingRing& arguments_;
  BatchMetadata& places_;
  BatchMetadata second_places_;  // for attend_rows' second source, which has other pages
  Buffer scratch_;
  bool is_used_ = false;  // whether a model of the backend uses it; places_ also grows for other operations
};

}  // namespace cairn::kernels::cuda
