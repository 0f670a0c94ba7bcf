/// Whether this program has kernels for a device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::cuda {

/// LaunchQueue one that does nothing. cudaErrorNoKernelImageForDevice and its kin: there are none for the stream's
/// device.
cudaError_t probe(LaunchQueue& stream);

}  // namespace cairn::cuda
