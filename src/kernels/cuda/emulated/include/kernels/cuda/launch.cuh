/// In place of kernels/cuda/launch.cuh: launches on the emulated GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/grid.cuh"

namespace cairn::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
            const Arguments&... arguments) {
  emulated::launch(reinterpret_cast<const void*>(kernel), {grid, threads, shared_bytes}, stream,
                   [kernel, ... copies = arguments] { kernel(copies...); });
}

using emulated::shared_memory;

}  // namespace cairn::cuda
