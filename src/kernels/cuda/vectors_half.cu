// Products of matrices of 16-bit floats with few inputs: a block computes some rows for all of up to 32 outputs, each
// of its warps one class of steps. A lane reads 16 bytes of a row at a time, the four lanes of a row 64 neighbouring
// ones.
//
// Estimate for an H100: with up to 8 inputs the weights' way from memory is all that counts. With 32 each byte of them
// meets one of inputs from the second-level cache, which then gives about 6 TB/s: two thirds of the memory's bandwidth.
#include "kernels/cuda/halves.cuh"

namespace cairn::cuda {
namespace {

constexpr int kThreads = kHalfClasses * kWarp;

// kRowParts times 16 rows by kOutputParts times 8 outputs. With `ids` the block's only output is blockIdx.y.
template <class F, bool kWide, int kRowParts, int kOutputParts>
__global__ __launch_bounds__(kThreads) void multiply_vectors(const __grid_constant__ Products products) {
  constexpr int kRows = 16 * kRowParts, kOutputs = 8 * kOutputParts, kSums = 4 * kRowParts * kOutputParts;
  __shared__ float of_classes[kHalfClasses][kSums][kWarp];
  const int number = products.of_block();
  const Product& product = products.of[number];
  const auto block = static_cast<int32_t>(blockIdx.x - products.first_blocks[number]);
  const int32_t groups = product.ids == nullptr ? (product.outputs + kOutputs - 1) / kOutputs : 1;
  // Blocks of the same rows are neighbours: they read the same weights.
  const int32_t row_begin = block / groups * kRows;
  const int32_t output_begin = product.ids == nullptr ? block % groups * kOutputs : static_cast<int32_t>(blockIdx.y);
  const int32_t count = product.ids == nullptr ? min(kOutputs, product.outputs - output_begin) : 1;
  const int32_t matrix = product.matrix_of(output_begin);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;

  // Beyond the end the last row and the last output are computed again and thrown away.
  const uint8_t* rows[2 * kRowParts];
#pragma unroll
  for (int r = 0; r < 2 * kRowParts; ++r)
    rows[r] = product.weight_row(matrix, min(row_begin + 8 * r + lane / 4, product.rows - 1));
  const uint16_t* inputs[kOutputParts];
#pragma unroll
  for (int q = 0; q < kOutputParts; ++q) {
    const int32_t output = output_begin + min(8 * q + lane / 4, count - 1);
    inputs[q] = product.halves.values + static_cast<int64_t>(product.input_of(output)) * product.padded_cols;
  }

  float sums[kRowParts][kOutputParts][4] = {};
  const int32_t steps = half_steps(product);
#pragma unroll(kRowParts* kOutputParts <= 2 ? 4 : 2)
  for (int32_t step = warp; step < steps; step += kHalfClasses) {
    const int32_t column = step * kHalfStep + lane % 4 * kHalfColumns;
    uint4 w[2 * kRowParts], x[kOutputParts];
#pragma unroll
    for (int r = 0; r < 2 * kRowParts; ++r) w[r] = load_halves<kWide>(rows[r], column, product.cols);
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) x[q] = __ldg(reinterpret_cast<const uint4*>(inputs[q] + column));
#pragma unroll
    for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
      for (int q = 0; q < kOutputParts; ++q) multiply_step<F>(w[2 * p], w[2 * p + 1], x[q], sums[p][q]);
    }
  }
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) {
#pragma unroll
      for (int i = 0; i < 4; ++i) of_classes[warp][4 * (p * kOutputParts + q) + i][lane] = sums[p][q][i];
    }
  }
  __syncthreads();
  for (int at = warp; at < kSums; at += kHalfClasses) {
    float sum = of_classes[0][at][lane];
#pragma unroll
    for (int c = 1; c < kHalfClasses; ++c) sum = __fadd_rn(sum, of_classes[c][at][lane]);
    const int part = at / 4;
    const int32_t row = row_begin + part / kOutputParts * 16 + half_row(at % 4, lane);
    const int32_t output = part % kOutputParts * 8 + half_output(at % 4, lane);
    if (row < product.rows && output < count) store_half_product(product, output_begin + output, matrix, row, sum);
  }
}

template <class F, bool kWide, int kRowParts, int kOutputParts>
void start(Launches& stream, Products& products) {
  const unsigned blocks = products.place([](const Product& each) {
    const int32_t groups = each.ids == nullptr ? (each.outputs + 8 * kOutputParts - 1) / (8 * kOutputParts) : 1;
    return blocks_of(each.rows, 16 * kRowParts, INT32_MAX) * static_cast<unsigned>(groups);
  });
  const dim3 grid(blocks, products.of[0].ids == nullptr ? 1 : static_cast<unsigned>(products.of[0].outputs));
  launch(multiply_vectors<F, kWide, kRowParts, kOutputParts>, grid, kThreads, 0, stream, products);
}

template <class F, bool kWide>
void start(Launches& stream, Products& products) {
  const int32_t outputs = products.of[0].ids == nullptr ? products.of[0].outputs : 1;
  if (outputs <= 8) return start<F, kWide, 1, 1>(stream, products);
  if (outputs <= 16) return start<F, kWide, 1, 2>(stream, products);
  start<F, kWide, 2, 4>(stream, products);
}

}  // namespace

bool multiply_vectors_half(Launches& stream, Products& products) {
  bool wide = true;
  for (int i = 0; i < products.count; ++i) wide = wide && reads_wide_halves(products.of[i]);
  return visit_format(HalfFormats(), products.of[0].type, [&]<class F>() {
    return wide ? start<F, true>(stream, products) : start<F, false>(stream, products);
  });
}

}  // namespace cairn::cuda
