/// What the Backend on the processor is made by.
#pragma once

#include <string>

namespace cairn::kernels {

struct CpuOptions {
  int threads = 0;  ///< 0: one per usable core
  /// A name in kernels/cpu/isa/isa.cpp, such as "avx2"; the value of CAIRN_ISA in the environment if empty, or else the
  /// best.
  std::string isa;
};

}  // namespace cairn::kernels
