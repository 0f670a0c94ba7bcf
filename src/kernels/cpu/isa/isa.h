/// The instruction sets for which the CPU backend has kernels, and the choice among them at start.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/recurrent/recurrent_kernels.h"
#include "kernels/cpu/rows/row_ops.h"

namespace cairn::kernels::cpu {

/// An instruction set's column of the dispatch table.
struct Isa {
  std::string_view name;
  const MatmulKernels* matmul;
  const RowKernels* rows;
  const AttentionKernels* attention;
  const RecurrentKernels* recurrent;
};

/// Instruction sets that this machine can run, best first; "generic" is the last.
std::span<const Isa> usable_isas();

/// The instruction set of that name, or the best for "". Errors: kInvalidArgument, which lists the usable ones.
Result<Isa> choose_isa(std::string_view name);

}  // namespace cairn::kernels::cpu
