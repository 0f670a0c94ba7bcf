// Instances of multiply_vectors for blocks of eight groups.
#include "kernels/cuda/matmul/gemv.cuh"

namespace cairn::kernels::cuda {

bool multiply_vectors_super(LaunchQueue& stream, Products& products) {
  return multiply_vectors_of<SuperFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
