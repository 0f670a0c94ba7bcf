/// The work of the emulated devices' streams.
#pragma once

#include <cstdint>
#include <functional>

#include "emulation/cuda/include/cuda_runtime_api.h"

namespace cairn::kernels::cuda::emulated {

/// Several devices, so that tests can divide a model between them.
inline constexpr int kDevices = 3;
/// The current device of the calling thread.
int current_device();
/// Stores an error for cudaGetLastError and returns it.
cudaError_t keep(cudaError_t error);
/// Enqueues work to be done when the stream is waited for. The stream must be one of the current device.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Number of graphs launched so far.
int64_t graphs_launched();
/// Finishes all work of all streams.
void finish_all();

}  // namespace cairn::kernels::cuda::emulated
