/// Whether this program has kernels for a device.
#pragma once

#include <cuda_runtime_api.h>

namespace cairn::cuda {

/// Runs one that does nothing. cudaErrorNoKernelImageForDevice and its kin: there are none for the stream's device.
cudaError_t probe(cudaStream_t stream);

}  // namespace cairn::cuda
