/// Launches of kernels that need more shared memory than the default.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::cuda {

/// Maximum bytes of shared memory per block.
inline int64_t shared_bytes_max(int device) {
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

/// Launches on `device`, which is current.
template <auto kKernel, class... Arguments>
void launch_large(int device, dim3 grid, int threads, int64_t shared_bytes, LaunchQueue& stream,
                  const Arguments&... arguments) {
  static std::atomic<uint64_t> allowed{0};  // bit set of devices on which the kernel's shared memory limit was raised
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) == 0) {
    const auto bytes = static_cast<int>(shared_bytes_max(device));
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    allowed.fetch_or(bit, std::memory_order_relaxed);
  }
  launch(kKernel, grid, threads, static_cast<size_t>(shared_bytes), stream, arguments...);
}

}  // namespace cairn::cuda
