/// Residual streams of the CPU backend: see kernels/stream_operations.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/rows/row_ops.h"
#include "kernels/cpu/team.h"
#include "kernels/stream_operations.h"

namespace cairn::cpu {

class StreamsOp final : public StreamOperations {
 public:
  StreamsOp(const RowKernels& kernels, Team& team) : kernels_(kernels), team_(team) {}

  void mix_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override;
  void gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override;
  void collapse_streams(const float* x, const float* shares, int32_t stride, int32_t streams, int64_t rows,
                        int64_t cols, float* out) override;
  void expand_streams(const float* x, const float* y, const float* shares, int32_t streams, int64_t rows, int64_t cols,
                      float* out) override;

 private:
  const RowKernels& kernels_;
  Team& team_;
};

}  // namespace cairn::cpu
