#include "kernels/cuda/probe.h"

namespace cairn::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t probe(cudaStream_t stream) {
  nothing<<<1, 1, 0, stream>>>();
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

}  // namespace cairn::cuda
