/// The work of the emulated devices' streams.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cuda/emulated/include/cuda_runtime_api.h"

namespace cairn::cuda::emulated {

/// Several, so that tests can divide a model between them.
inline constexpr int kDevices = 3;
/// The calling thread's.
int current_device();
/// Keeps an error for cudaGetLastError and gives it back.
cudaError_t keep(cudaError_t error);
/// For when the stream is waited for. It is one of the current device.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Graphs that were launched so far.
int64_t graphs_launched();
/// Does all work of all streams.
void finish_all();

}  // namespace cairn::cuda::emulated
