/// RecurrentOperations of the CPU backend. A task is a block of rows of one head's state, or of channels, of one
/// sequence: a single sequence keeps all threads busy.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/thread_team.h"
#include "kernels/recurrent_operations.h"

namespace cairn::kernels::cpu {

class RecurrentOp final : public RecurrentOperations {
 public:
  RecurrentOp(const Isa& isa, ThreadTeam& team) : kernels_(*isa.recurrent), rows_(*isa.rows), team_(team) {}

  void convolve(const ConvolutionParams& params, std::span<const StateSlice> slices,
                const ConvolutionRows& rows) override;
  void delta_rule(const DeltaRuleParams& params, std::span<const StateSlice> slices,
                  const DeltaRuleRows& rows) override;
  void scan(const ScanParams& params, std::span<const StateSlice> slices, const ScanRows& rows) override;
  void gated_norm(const GatedNormParams& params, const float* gates, int64_t rows, float* x) override;

 private:
  void convolve_channels(const ConvolutionParams& params, const StateSlice& slice, const ConvolutionRows& rows,
                         int64_t begin, int64_t channels) const;
  /// Normalises the queries and keys of a row, and makes its gates.
  void prepare_row(const DeltaRuleParams& params, const DeltaRuleRows& rows, int64_t row) const;

  const RecurrentKernels& kernels_;
  const RowKernels& rows_;
  ThreadTeam& team_;
};

}  // namespace cairn::kernels::cpu
