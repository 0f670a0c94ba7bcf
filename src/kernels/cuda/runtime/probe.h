/// Checks whether this program has kernels for a device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::cuda {

/// Launches an empty kernel. cudaErrorNoKernelImageForDevice and similar errors mean that there are no kernels for the
/// stream's device.
cudaError_t probe(LaunchQueue& stream);

}  // namespace cairn::cuda
