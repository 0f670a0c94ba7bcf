/// The Backend on an NVIDIA GPU: every operation enqueues kernels (kernels.h) on one stream and returns; read() and
/// finish() wait for results.
///
/// Quantised weights are on the device as panels (weights/panels.cuh), others as in the file. Keys and values are
/// stored in rows (kernels.h), so the layout of pages differs from that of the CPU's.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/runtime/stream.h"

namespace cairn::cuda {

std::unique_ptr<Backend> make_backend(std::unique_ptr<Stream> stream);

}  // namespace cairn::cuda
