/// Products of tensor cores whose operands are in registers: nothing that reads memory is faster. For benchmarks.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::cuda {

/// Of bfloat16.
struct PeakWork {
  int32_t blocks = 0;  ///< of kPeakThreads threads
  int32_t rounds = 0;  ///< of each
};
inline constexpr int kPeakThreads = 256;
/// Multiplications and additions.
int64_t peak_operations(const PeakWork& work);
/// Writes a number for each thread, so that the products are not left out.
void multiply_registers(LaunchQueue& stream, const PeakWork& work, float* out);

}  // namespace cairn::cuda
