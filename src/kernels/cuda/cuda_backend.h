/// The Backend on an NVIDIA GPU: every operation enqueues kernels (kernels.h) on one stream and returns; results are
/// waited for in read() and finish(). A build without CUDA has no_cuda.cpp in its place.
///
/// Quantised weights are on the device as panels (weights/panels.cuh), others as in the file. Keys and values are
/// stored in rows (kernels.h), so the layout of pages differs from that of the CPU's.
#pragma once

#include <memory>

#include "base/error.h"
#include "kernels/backend.h"

namespace cairn::kernels {

struct CudaOptions {
  int device = 0;  ///< as CUDA counts those that it sees
};
/// An NVIDIA GPU. Errors: kUnsupported (a build without CUDA; a GPU that is too old, or that this build has no kernels
/// for), kNotFound (no driver, one that is too old, no such GPU), kOutOfMemory.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);
/// Number of GPUs, at least one. Errors: kUnsupported (a build without CUDA), kNotFound (no driver, one that is too
/// old, no GPU).
Result<int> cuda_device_count();
bool built_with_cuda();

}  // namespace cairn::kernels
