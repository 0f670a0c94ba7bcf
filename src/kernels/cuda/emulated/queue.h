/// The work of an emulated device's streams.
#pragma once

#include <functional>

#include "kernels/cuda/emulated/include/cuda_runtime_api.h"

namespace cairn::cuda::emulated {

/// Keeps an error for cudaGetLastError and gives it back.
cudaError_t keep(cudaError_t error);
/// For when the stream is waited for.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Does all work of all streams.
void finish_all();

}  // namespace cairn::cuda::emulated
