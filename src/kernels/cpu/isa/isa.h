/// Which instruction sets the CPU backend has kernels for, and the choice among them at start.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/rows/row_ops.h"

namespace cairn::cpu {

/// One column of the dispatch table.
struct Isa {
  std::string_view name;
  const MatmulKernels* matmul;
  const RowKernels* rows;
  const AttentionKernels* attention;
};

/// Those that this machine can run, best first; "generic" is the last.
std::span<const Isa> usable_isas();

/// The best for "". Errors: kInvalidArgument, with the usable ones listed.
Result<Isa> choose_isa(std::string_view name);

}  // namespace cairn::cpu
