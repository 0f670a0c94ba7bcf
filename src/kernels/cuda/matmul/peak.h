/// Tensor core products with operands in registers: an upper bound for kernels that read memory. For benchmarks.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::kernels::cuda {

/// An amount of bfloat16 products.
struct PeakWork {
  int32_t blocks = 0;  ///< of kPeakThreads threads
  int32_t rounds = 0;  ///< rounds per block
};
inline constexpr int kPeakThreads = 256;
/// Number of multiplications and additions.
int64_t peak_operations(const PeakWork& work);
/// Multiplies; writes a number for each thread, so that the compiler does not remove the products.
void multiply_registers(LaunchQueue& stream, const PeakWork& work, float* out);

}  // namespace cairn::kernels::cuda
