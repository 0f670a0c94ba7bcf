// Rounds rows for products on the tensor cores.
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::kernels::cuda {
namespace {

struct Round {
  const float* x;
  HalfRows out;

  template <class Part>
  __device__ void operator()(const Part& part) const {
    if (!part.begin()) return;
    const RowValues<Part> values(part, x + part.row() * part.cols());
    round_row(part, values, out.bfloat ? 0 : largest_of(part, values), out);
  }
};

}  // namespace

void round_rows(LaunchQueue& stream, const float* x, int64_t rows, int64_t cols, const HalfRows& out) {
  for_rows<8>(stream, Round{x, out}, rows, cols, columns_aligned(cols, x));
}

}  // namespace cairn::kernels::cuda
