// Instances of multiply_vectors for 16-bit floats.
#include "kernels/cuda/matmul/gemv.cuh"

namespace cairn::kernels::cuda {

bool multiply_vectors_half(LaunchQueue& stream, Products& products) {
  return visit_format(HalfFormats(), products.of[0].type, [&]<class F>() {
    if (reads_wide_halves(products)) return launch_vectors<RowWeights<F, true>>(stream, products);
    launch_vectors<RowWeights<F, false>>(stream, products);
  });
}

}  // namespace cairn::kernels::cuda
