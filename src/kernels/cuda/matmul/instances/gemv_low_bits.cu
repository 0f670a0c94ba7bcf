// Instances of multiply_vectors for grid-based and ternary weights, and those of one or two bits.
#include "kernels/cuda/matmul/gemv.cuh"

namespace cairn::kernels::cuda {

bool multiply_vectors_low_bits(LaunchQueue& stream, Products& products) {
  return multiply_vectors_of<LowBitFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
