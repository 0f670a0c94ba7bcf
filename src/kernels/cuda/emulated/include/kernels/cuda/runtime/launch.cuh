/// Replaces kernels/cuda/runtime/launch.cuh: launches on the emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/runtime/grid.cuh"
#include "kernels/cuda/runtime/launch_arguments.h"

namespace cairn::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, LaunchQueue& launches,
            const Arguments&... arguments) {
  emulated::know(kernel);
  add_launch<Parameters...>(launches, reinterpret_cast<const void*>(kernel), grid, threads, shared_bytes, arguments...);
}

using emulated::shared_memory;

}  // namespace cairn::cuda
