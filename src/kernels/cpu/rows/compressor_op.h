/// The KV compressor of the CPU backend: see kernels/compressor_operations.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/compressor_operations.h"
#include "kernels/cpu/rows/row_ops.h"
#include "kernels/cpu/thread_team.h"

namespace cairn::kernels::cpu {

class CompressorOp final : public CompressorOperations {
 public:
  CompressorOp(const RowKernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team) {}

  void compress(const CompressorParams& params, const KvView& values, const KvView& scores,
                std::span<const AttentionSlice> slices, float* out) override;
  void round_fp8(float* x, int64_t rows, int64_t stride, int32_t dims) override;
  void hadamard_fp4(float* x, int64_t rows, int32_t dims) override;

 private:
  struct Call {
    const CompressorParams& params;
    const KvView& values;
    const KvView& scores;
  };
  void compress_row(const Call& call, const AttentionSlice& slice, int32_t row, float* out) const;

  const RowKernels& kernels_;
  ThreadTeam& team_;
};

}  // namespace cairn::kernels::cpu
