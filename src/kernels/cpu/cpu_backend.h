/// The Backend on the processor. Kernels per instruction set come from the dispatch table (isa.h); products.h and
/// attention_op.h cut the large operations into pieces for the threads. Cuts never change a result.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/isa/isa.h"

namespace cairn::cpu {

/// A backend with the given kernels, for tests. The program calls cairn::make_cpu_backend.
std::unique_ptr<Backend> make_backend(const Isa& isa, int threads);

}  // namespace cairn::cpu
