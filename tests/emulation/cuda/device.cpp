// Properties of the emulated devices.
#include <cstdio>

#include "emulation/cuda/include/cuda_runtime_api.h"
#include "emulation/cuda/queue.h"

using namespace cairn::kernels::cuda::emulated;

namespace {

thread_local int current = 0;

}  // namespace

int cairn::kernels::cuda::emulated::current_device() { return current; }

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    default:
      return "cudaErrorInvalidValue";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  // Kernels are compiled for processors with fused multiply-adds; without them they would be too slow.
  *count = __builtin_cpu_supports("fma") ? kDevices : 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= kDevices) return keep(cudaErrorInvalidDevice);
  std::snprintf(properties->name, sizeof(properties->name), "emulated");
  properties->major = 9;
  properties->minor = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return keep(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming)
