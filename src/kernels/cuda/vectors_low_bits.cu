// multiply_vectors for blocks of at most three bits a weight and their scales.
#include "kernels/cuda/vectors.cuh"

namespace cairn::cuda {

bool multiply_vectors_low_bits(cudaStream_t stream, const Product& product) {
  return multiply_vectors_of<LowBitFormats>(stream, product);
}

}  // namespace cairn::cuda
