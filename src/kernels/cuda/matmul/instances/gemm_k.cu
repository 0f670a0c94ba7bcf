// Instances of multiply_tiles for blocks of eight groups.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::kernels::cuda {

bool multiply_tiles_super(LaunchQueue& stream, Products& products) {
  return multiply_tiles_of<SuperFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
