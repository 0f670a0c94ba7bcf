// Instances of multiply_tiles for 16-bit floats.
#include "kernels/cuda/matmul/gemm.cuh"

namespace cairn::cuda {

bool multiply_tiles_half(LaunchQueue& stream, const Product& product) {
  return visit_format(HalfFormats(), product.type, [&]<class F>() {
    if (reads_wide_halves(product)) return start_tiles<RowWeights<F, true>>(stream, product);
    start_tiles<RowWeights<F, false>>(stream, product);
  });
}

}  // namespace cairn::cuda
