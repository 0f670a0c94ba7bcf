/// Checks whether this program has kernels for a device.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/runtime/launch_queue.h"

namespace cairn::kernels::cuda {

/// Launches an empty kernel. cudaErrorNoKernelImageForDevice and similar errors mean that there are no kernels for the
/// stream's device.
cudaError_t probe(LaunchQueue& stream);

/// Whether the kernels that this device runs know launch_dependent() (launch.cuh): those for compute capability 9.0 and
/// above do. The others would not wait for the kernels before them.
bool knows_dependent_launches();

}  // namespace cairn::kernels::cuda
