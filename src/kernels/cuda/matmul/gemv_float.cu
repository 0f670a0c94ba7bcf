// Products of float32 matrices with few inputs. A warp computes kRows elements of each of kInputs outputs; a lane has
// the columns of its class: eight neighbouring ones of every 256, so a warp reads 1024 neighbouring bytes of a row. On
// an H100 that should reach nine tenths of the bandwidth.
#include "kernels/cuda/weights/float_formats.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kWarps = 4;
template <int kInputs>
constexpr int kRows = kInputs <= 4 ? 2 : 4;

template <class F, bool kWide, int kInputs>
__global__ __launch_bounds__(kWarps* kWarp) void multiply_vectors(const __grid_constant__ Products products) {
  const int number = products.of_block();
  const Product& product = products.of[number];
  const int lane = threadIdx.x % kWarp;
  const auto row_begin = static_cast<int32_t>(
      ((blockIdx.x - products.first_blocks[number]) * kWarps + threadIdx.x / kWarp) * kRows<kInputs>);
  if (row_begin >= product.rows) return;
  const auto output = static_cast<int32_t>(blockIdx.y);
  const int32_t matrix = product.matrix_of(output), cols = product.cols;

  // Rows and inputs beyond the end repeat the last ones, and their results are dropped.
  const uint8_t* weights[kRows<kInputs>];
#pragma unroll
  for (int r = 0; r < kRows<kInputs>; ++r) {
    weights[r] = product.weight_row(matrix, min(row_begin + r, product.rows - 1));
  }
  const float* inputs[kInputs];
#pragma unroll
  for (int i = 0; i < kInputs; ++i) {
    inputs[i] = product.x + static_cast<int64_t>(product.input_of(output) + min(i, product.outputs - 1)) * cols;
  }

  float totals[kRows<kInputs>][kInputs] = {};
#pragma unroll(kInputs == 1 ? 4 : 1)
  for (int32_t column = lane * kFloatStep; column < cols; column += kClasses * kFloatStep) {
    float w[kRows<kInputs>][kFloatStep];
#pragma unroll
    for (int r = 0; r < kRows<kInputs>; ++r) load_columns<F, kWide>(weights[r], column, cols, w[r]);
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      float x[kFloatStep];
      load_columns<FormatF32, kWide>(reinterpret_cast<const uint8_t*>(inputs[i]), column, cols, x);
#pragma unroll
      for (int k = 0; k < kFloatStep; ++k) {
        if (!kWide && column + k >= cols) break;
#pragma unroll
        for (int r = 0; r < kRows<kInputs>; ++r) totals[r][i] = __fmaf_rn(w[r][k], x[k], totals[r][i]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < kRows<kInputs>; ++r) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const float sum = add_lanes(totals[r][i]);
      const bool there = row_begin + r < product.rows && i < (product.ids == nullptr ? product.outputs : 1);
      if (lane == 0 && there) product.store(output + i, matrix, row_begin + r, sum);
    }
  }
}

template <class F, bool kWide, int kInputs>
void start(LaunchQueue& stream, Products& products) {
  const unsigned blocks =
      products.place([](const Product& each) { return blocks_of(each.rows, kWarps * kRows<kInputs>, INT32_MAX); });
  const dim3 grid(blocks, products.of[0].ids == nullptr ? 1 : static_cast<unsigned>(products.of[0].outputs));
  launch(multiply_vectors<F, kWide, kInputs>, grid, kWarps * kWarp, 0, stream, products);
}

template <class F, bool kWide>
void start(LaunchQueue& stream, Products& products) {
  const int32_t inputs = products.of[0].ids == nullptr ? products.of[0].outputs : 1;
  if (inputs == 1) return start<F, kWide, 1>(stream, products);
  if (inputs == 2) return start<F, kWide, 2>(stream, products);
  if (inputs <= 4) return start<F, kWide, 4>(stream, products);
  start<F, kWide, kFloatVectorOutputs>(stream, products);
}

}  // namespace

bool multiply_vectors_float(LaunchQueue& stream, Products& products) {
  bool wide = true;
  for (int i = 0; i < products.count; ++i) wide = wide && reads_wide(products.of[i]);
  return visit_format(FormatList<FormatF32>(), products.of[0].type, [&]<class F>() {
    return wide ? start<F, true>(stream, products) : start<F, false>(stream, products);
  });
}

}  // namespace cairn::kernels::cuda
