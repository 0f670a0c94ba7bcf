// Instances of multiply_tiles for 16-bit floats.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::kernels::cuda {

bool multiply_tiles_half(LaunchQueue& stream, Products& products) {
  return visit_format(HalfFormats(), products.of[0].type, [&]<class F>() {
    if (reads_wide_halves(products)) return start_tiles<RowWeights<F, true>>(stream, products);
    start_tiles<RowWeights<F, false>>(stream, products);
  });
}

}  // namespace cairn::kernels::cuda
