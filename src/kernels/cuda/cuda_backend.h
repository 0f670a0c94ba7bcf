/// The Backend on an NVIDIA GPU: every operation enqueues kernels (kernels.h) on one stream and returns; results are
/// waited for in read() and finish().
///
/// Quantised weights lie on the device in panels (weights/panels.cuh), others as in the file. Keys and values lie in
/// rows (kernels.h), so pages of this backend are not those of the CPU's.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/stream.h"

namespace cairn::cuda {

std::unique_ptr<Backend> make_backend(std::unique_ptr<Stream> stream);

}  // namespace cairn::cuda
