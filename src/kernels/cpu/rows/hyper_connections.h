/// Hyper-connections of the CPU backend: see kernels/hyper_connection_operations.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/rows/row_ops.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/hyper_connection_operations.h"

namespace cairn::kernels::cpu {

class HyperConnectionOp final : public HyperConnectionOperations {
 public:
  HyperConnectionOp(const RowKernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team) {}

  void hyper_connection_weights(const StreamParams& params, const float* logits, int64_t rows, float* shares) override;
  void gate_streams(const StreamParams& params, const float* logits, int64_t rows, float* shares) override;
  void hyper_connection_read(const float* x, const float* shares, int32_t stride, int32_t streams, int64_t rows,
                             int64_t cols, float* out) override;
  void hyper_connection_write(const float* x, const float* y, const float* shares, int32_t streams, int64_t rows,
                              int64_t cols, float* out) override;

 private:
  const RowKernels& kernels_;
  ThreadTeam& team_;
};

}  // namespace cairn::kernels::cpu
