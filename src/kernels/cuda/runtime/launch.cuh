/// Launches of kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/runtime/grid.cuh"
#include "kernels/cuda/runtime/launch_arguments.h"

namespace cairn::cuda {

/// Launches a kernel. Errors stay with the device, as described in kernels.h.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
            const Arguments&... arguments) {
  add_launch<Parameters...>(launches, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes, arguments...);
}

/// The dynamic shared memory of the block.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte cairn_shared_memory[];
  return cairn_shared_memory;
}

}  // namespace cairn::cuda
