// multiply_tiles for blocks of at most three bits a weight and their scales.
#include "kernels/cuda/tiles.cuh"

namespace cairn::cuda {

bool multiply_tiles_low_bits(cudaStream_t stream, const Product& product) {
  return multiply_tiles_of<LowBitFormats>(stream, product);
}

}  // namespace cairn::cuda
