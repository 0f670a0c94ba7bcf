/// Finds the GPU, and checks that this program can run on it.
#pragma once

#include <memory>

#include "base/error.h"
#include "kernels/cuda/runtime/stream.h"

namespace cairn::kernels::cuda {

/// Implements cuda_device_count.
Result<int> count_devices();

/// A stream of GPU number `device`, named like "NVIDIA H100 80GB HBM3", or "NVIDIA H100 80GB HBM3 #1" if there are
/// several. Errors: as make_cuda_backend.
Result<std::unique_ptr<Stream>> open_device(int device);

}  // namespace cairn::kernels::cuda
