/// Launches of kernels on an emulated device.
#pragma once

#include <functional>

#include "kernels/cuda/emulated/block.h"
#include "kernels/cuda/emulated/include/cuda_runtime_api.h"

namespace cairn::cuda::emulated {

/// Lets launches of a kernel have more shared memory than kernels get unasked.
cudaError_t allow_shared(const void* kernel, int bytes);
/// Enqueues the kernel, of which `work` is one thread. What the device does not take is left to cudaGetLastError.
void launch(const void* kernel, const Grid& grid, cudaStream_t stream, std::function<void()> work);

}  // namespace cairn::cuda::emulated
