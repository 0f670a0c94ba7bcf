/// Replaces kernels/cuda/runtime/launch.cuh: launches on the emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/runtime/grid.cuh"
#include "kernels/cuda/runtime/launch_arguments.h"

namespace cairn::kernels::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
            const Arguments&... arguments) {
  emulated::know(kernel);
  add_launch<Parameters...>(launches, false, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes,
                            arguments...);
}

template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
                      const Arguments&... arguments) {
  emulated::know(kernel);
  add_launch<Parameters...>(launches, true, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes,
                            arguments...);
}

inline void trigger_dependents() {}
inline void prefetch_line(const void*) {}
inline constexpr int kLineBytes = 128;
using emulated::shared_memory;
using emulated::wait_for_dependencies;

}  // namespace cairn::kernels::cuda
