// multiply_vectors for blocks of one or two groups.
#include "kernels/cuda/vectors.cuh"

namespace cairn::cuda {

bool multiply_vectors_small(cudaStream_t stream, const Product& product) {
  return multiply_vectors_of<SmallFormats>(stream, product);
}

}  // namespace cairn::cuda
