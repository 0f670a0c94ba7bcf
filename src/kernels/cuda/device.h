/// Which GPU there is, and whether this program runs on it.
#pragma once

#include <memory>

#include "base/error.h"
#include "kernels/cuda/stream.h"

namespace cairn::cuda {

/// A stream of GPU number `device`, named like "NVIDIA H100 80GB HBM3". Errors: as make_cuda_backend.
Result<std::unique_ptr<Stream>> open_device(int device);

}  // namespace cairn::cuda
