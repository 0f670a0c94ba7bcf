// Rounds rows for products on the tensor cores.
#include "kernels/cuda/matmul/round_inputs.cuh"

namespace cairn::cuda {
namespace {

struct Round {
  const float* x;
  HalfRows out;

  template <int kThreads, bool kAligned>
  __device__ void operator()(int64_t row, int64_t cols) const {
    using P = RowPart<kThreads>;
    const float* from = x + row * cols;
    float largest = 0;
    for (int64_t c = P().first; c < cols && !out.bfloat; c += P::kStep) {
      const Four four = load_four<kAligned>(from + c, cols - c);
#pragma unroll
      for (int k = 0; k < 4; ++k) largest = fmaxf(largest, fabsf(four.at[k]));
    }
    round_row<kThreads, kAligned>(from, row, cols, largest, out);
  }
};

}  // namespace

void round_rows(LaunchQueue& stream, const float* x, int64_t rows, int64_t cols, const HalfRows& out) {
  for_rows(stream, Round{x, out}, rows, cols, columns_aligned(cols, x));
}

}  // namespace cairn::cuda
