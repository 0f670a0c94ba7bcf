/// DrawOperations of the CUDA backend.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/draw_operations.h"
#include "kernels/workspace_sizes.h"

namespace cairn::cuda {

class CudaDraw final : public DrawOperations {
 public:
  /// The backend's, which outlive this; `arguments` are reserved by it.
  CudaDraw(Stream& stream, StagingRing& arguments) : stream_(stream), arguments_(arguments) {}

  /// Bytes that the first reserve() takes.
  static int64_t workspace_bytes(const WorkspaceSizes& sizes);
  /// Of the largest argument.
  static int64_t argument_bytes(const WorkspaceSizes& sizes);
  /// Errors: kOutOfMemory.
  Result<void> reserve(const WorkspaceSizes& sizes);

  void draw(float* logits, int64_t vocabulary, std::span<const Draw> draws, std::span<const LogitChange> changes,
            std::span<Drawn> drawn) override;

 private:
  /// Changes of one launch: as many as the ring holds without being made larger for them.
  static constexpr int64_t kChangesAtOnce = int64_t{1} << 15;
  static_assert(kChangesAtOnce >= kDrawChangesMax);

  Stream& stream_;
  StagingRing& arguments_;
  Buffer drawn_;    // [draw_rows]
  Buffer changed_;  // [kChangesAtOnce], logits before they were changed
};

}  // namespace cairn::cuda
