#include "kernels/cuda/runtime/probe.h"

#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe(LaunchQueue& stream) {
  launch(nothing, dim3(1), 1, 0, stream);
  return cudaGetLastError();
}

bool knows_dependent_launches() {
  constexpr int kVersionMin = 90;
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(nothing));
  cudaGetLastError();  // probe() reports errors
  return error == cudaSuccess && attributes.ptxVersion >= kVersionMin;
}

}  // namespace cairn::kernels::cuda
