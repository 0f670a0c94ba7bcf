// multiply_vectors for blocks of eight groups.
#include "kernels/cuda/vectors.cuh"

namespace cairn::cuda {

bool multiply_vectors_super(cudaStream_t stream, const Product& product) {
  return multiply_vectors_of<SuperFormats>(stream, product);
}

}  // namespace cairn::cuda
