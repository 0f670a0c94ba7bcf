/// The Backend on the processor. Kernels per instruction set come from the dispatch table (isa/isa.h); products.h and
/// attention_op.h cut the large operations into pieces for the threads. Cuts never change a result.
#pragma once

#include <memory>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_options.h"

namespace cairn::kernels {

/// Errors: kInvalidArgument (unknown ISA, or one this machine lacks; the message lists what it has).
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);

namespace cpu {

struct Isa;

/// With the kernels given, whatever they are: for tests. The program calls make_cpu_backend.
std::unique_ptr<Backend> make_backend(const Isa& isa, int threads);

}  // namespace cpu
}  // namespace cairn::kernels
