// Instances of multiply_tiles for grid-based and ternary weights, and those of one or two bits.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::cuda {

bool multiply_tiles_low_bits(LaunchQueue& stream, const Product& product) {
  return multiply_tiles_of<LowBitFormats>(stream, product);
}

}  // namespace cairn::cuda
