/// Launches of kernels that need more shared memory than the default.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {

/// An attribute of a device, which is asked for once: some launches need it, and there are hundreds in a step.
template <cudaDeviceAttr kAttribute>
int device_attribute(int device) {
  constexpr int kDevicesMax = 64;
  static std::array<std::atomic<int>, kDevicesMax> known{};
  if (device >= 0 && device < kDevicesMax) {
    if (const int value = known[device].load(std::memory_order_relaxed); value != 0) return value;
  }
  int value = 0;
  cudaDeviceGetAttribute(&value, kAttribute, device);
  if (device >= 0 && device < kDevicesMax) known[device].store(value, std::memory_order_relaxed);
  return value;
}

/// Maximum bytes of shared memory per block.
inline int64_t shared_bytes_max(int device) {
  return device_attribute<cudaDevAttrMaxSharedMemoryPerBlockOptin>(device);
}

/// Multiprocessors of the current device.
inline int64_t multiprocessors() {
  int device = 0;
  cudaGetDevice(&device);
  return std::max(device_attribute<cudaDevAttrMultiProcessorCount>(device), 1);
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

/// Launches a kernel that calls trigger_dependents() and wait_for_dependencies() (launch.cuh) on `device`, which is
/// current.
template <auto kKernel, class... Arguments>
void launch_large_dependent(int device, dim3 grid, int threads, int64_t shared_bytes, LaunchQueue& stream,
                            const Arguments&... arguments) {
  allow_shared_bytes<kKernel>(device);
  launch_dependent(kKernel, grid, threads, static_cast<size_t>(shared_bytes), stream, arguments...);
}

}  // namespace cairn::kernels::cuda
