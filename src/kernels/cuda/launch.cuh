/// Launches of kernels: the one place with the syntax for it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/grid.cuh"

namespace cairn::cuda {

/// Errors stay with the device, as operations.h says.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  kernel<<<grid, static_cast<unsigned>(threads), shared_bytes, stream>>>(arguments...);
}

/// The shared memory that the launch gave the block.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte cairn_shared_memory[];
  return cairn_shared_memory;
}

}  // namespace cairn::cuda
