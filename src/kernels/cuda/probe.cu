#include "kernels/cuda/probe.h"

#include "kernels/cuda/launch.cuh"

namespace cairn::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe(cudaStream_t stream) {
  launch(nothing, dim3(1), 1, 0, stream);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

}  // namespace cairn::cuda
