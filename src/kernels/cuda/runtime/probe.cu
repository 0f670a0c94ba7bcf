#include "kernels/cuda/runtime/probe.h"

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe(LaunchQueue& stream) {
  launch(nothing, dim3(1), 1, 0, stream);
  return cudaGetLastError();
}

}  // namespace cairn::cuda
