// Instances of multiply_tiles for grid-based and ternary weights, and those of one or two bits.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::kernels::cuda {

bool multiply_tiles_low_bits(LaunchQueue& stream, Products& products) {
  return multiply_tiles_of<LowBitFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
