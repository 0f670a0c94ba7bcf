// Instances of multiply_vectors for blocks of one or two groups.
#include "kernels/cuda/matmul/gemv.cuh"

namespace cairn::kernels::cuda {

bool multiply_vectors_small(LaunchQueue& stream, Products& products) {
  return multiply_vectors_of<SmallFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
