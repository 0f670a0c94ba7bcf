// Instances of multiply_tiles for blocks of one or two groups.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::kernels::cuda {

bool multiply_tiles_small(LaunchQueue& stream, Products& products) {
  return multiply_tiles_of<SmallFormats>(stream, products);
}

}  // namespace cairn::kernels::cuda
