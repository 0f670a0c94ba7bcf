/// Launches of kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/runtime/grid.cuh"
#include "kernels/cuda/runtime/launch_arguments.h"

namespace cairn::kernels::cuda {

/// Launches a kernel. Errors stay with the device, as described in kernels.h.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
            const Arguments&... arguments) {
  add_launch<Parameters...>(launches, false, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes,
                            arguments...);
}

/// Launches a kernel that may begin before the one before it has ended (CUDA's programmatic dependent launch): all of
/// its threads call trigger_dependents() and wait_for_dependencies().
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
                      const Arguments&... arguments) {
  add_launch<Parameters...>(launches, true, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes,
                            arguments...);
}

/// Lets the next kernel begin once all blocks of this one have called it, if it is launched by launch_dependent().
__device__ __forceinline__ void trigger_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until all kernels before this one have ended and what they wrote can be read. Before it a kernel may read its
/// parameters and a model's weights, and nothing that an operation writes.
__device__ __forceinline__ void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Starts loading the 128 bytes around `at` from memory into the second-level cache.
__device__ __forceinline__ void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
inline constexpr int kLineBytes = 128;

/// The dynamic shared memory of the block.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(16) std::byte cairn_shared_memory[];
  return cairn_shared_memory;
}

}  // namespace cairn::kernels::cuda
