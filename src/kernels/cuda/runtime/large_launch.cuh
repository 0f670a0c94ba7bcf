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

/// Multiprocessors of the current device.
inline int64_t multiprocessors() {
  int device = 0, count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

/// Lets the kernel have as much shared memory on `device`, which is current, as there is.
template <auto kKernel>
void allow_shared_bytes(int device) {
  static std::atomic<uint64_t> allowed{0};  // bit set of devices on which the kernel's shared memory limit was raised
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((allowed.load(std::memory_order_relaxed) & bit) == 0) {
    const auto bytes = static_cast<int>(shared_bytes_max(device));
    cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    allowed.fetch_or(bit, std::memory_order_relaxed);
  }
}

/// Launches on `device`, which is current.
template <auto kKernel, class... Arguments>
void launch_large(int device, dim3 grid, int threads, int64_t shared_bytes, LaunchQueue& stream,
                  const Arguments&... arguments) {
  allow_shared_bytes<kKernel>(device);
  launch(kKernel, grid, threads, static_cast<size_t>(shared_bytes), stream, arguments...);
}

/// The same for a kernel that calls trigger_dependents() and wait_for_dependencies() (launch.cuh).
template <auto kKernel, class... Arguments>
void launch_large_dependent(int device, dim3 grid, int threads, int64_t shared_bytes, LaunchQueue& stream,
                            const Arguments&... arguments) {
  allow_shared_bytes<kKernel>(device);
  launch_dependent(kKernel, grid, threads, static_cast<size_t>(shared_bytes), stream, arguments...);
}

}  // namespace cairn::cuda
