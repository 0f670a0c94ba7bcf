/// Products of quantised matrices with few inputs: what matters is to read the weights at the speed of the memory.
///
/// A warp computes kRows elements of each of kInputs outputs; a lane has the groups of its class (order.cuh). Weights
/// are taken apart once for all inputs; the activations come from the first-level cache, where all warps of a block
/// find the same ones.
#pragma once

#include <algorithm>

#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/order.cuh"
#include "kernels/cuda/product.cuh"

namespace cairn::cuda {

inline constexpr int kVectorWarps = 4;
/// Rows of the matrix to a warp: activations are loaded once for all of them.
template <int kInputs>
inline constexpr int kVectorRows = kInputs <= 4 ? 2 : 4;

/// A group of a weight row, taken apart.
template <class F>
struct WeightGroup {
  uint32_t codes[2 * kGroupOctets];
  GroupScales scales;

  __device__ __forceinline__ void load(const GroupPlace& place) {
#pragma unroll
    for (int i = 0; i < kGroupOctets; ++i) {
      const Octet octet = F::codes(place, i);
      codes[2 * i] = octet.words[0];
      codes[2 * i + 1] = octet.words[1];
    }
    scales = F::scales(place);
  }
};

/// A group of a quantised input.
struct InputGroup {
  uint32_t codes[2 * kGroupOctets];
  float scale;
  float scaled_sum;

  __device__ __forceinline__ void load(const Int8Rows& rows, uint32_t group, bool with_sum) {
    const auto* at = reinterpret_cast<const uint4*>(rows.codes) + static_cast<int64_t>(group) * 2;
    const uint4 low = __ldg(at), high = __ldg(at + 1);
    codes[0] = low.x, codes[1] = low.y, codes[2] = low.z, codes[3] = low.w;
    codes[4] = high.x, codes[5] = high.y, codes[6] = high.z, codes[7] = high.w;
    scale = __ldg(rows.scales + group);
    scaled_sum = with_sum ? __fmul_rn(scale, static_cast<float>(__ldg(rows.sums + group))) : 0.0f;
  }
};

/// Four words of the input times four of a weight's, or the same word.
__device__ __forceinline__ int32_t dot(const uint32_t* x, const uint32_t* w) {
  int32_t sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) sum = __dp4a(static_cast<int>(x[i]), static_cast<int>(w[i]), sum);
  return sum;
}
__device__ __forceinline__ int32_t dot_of_one(const uint32_t* x, int32_t value) {
  const uint32_t word = static_cast<uint32_t>(value) * 0x01010101u;
  const uint32_t words[4] = {word, word, word, word};
  return dot(x, words);
}

template <class F>
__device__ __forceinline__ float add_product(float total, const WeightGroup<F>& w, const InputGroup& x) {
  const int32_t first = dot(x.codes, w.codes), second = dot(x.codes + 4, w.codes + 4);
  const float sum = join_halves<F>(w.scales.factors[0], first, w.scales.factors[1], second);
  float scaled_minima = x.scaled_sum;
  if constexpr (F::kMinima == Minima::kInteger) {
    const int32_t minima = dot_of_one(x.codes, w.scales.minima[0]) + dot_of_one(x.codes + 4, w.scales.minima[1]);
    scaled_minima = __fmul_rn(x.scale, static_cast<float>(minima));
  }
  return add_group<F>(total, w.scales.scale, w.scales.minimum, x.scale, sum, scaled_minima);
}

/// Outputs [kInputs * blockIdx.y, ...) of up to kInputs; all of one matrix, so with `ids` one.
template <class F, int kInputs>
__global__ __launch_bounds__(kVectorWarps* kWarp) void multiply_vectors(const __grid_constant__ Products products) {
  const int number = products.of_block();
  const Product& product = products.of[number];
  constexpr int kRows = kVectorRows<kInputs>;
  const uint32_t lane = threadIdx.x % kWarp;
  const auto row_begin =
      static_cast<int32_t>(((blockIdx.x - products.first_blocks[number]) * kVectorWarps + threadIdx.x / kWarp) * kRows);
  if (row_begin >= product.rows) return;
  const auto output = static_cast<int32_t>(blockIdx.y);
  const int32_t matrix = product.matrix_of(output);

  // Beyond the end the last row and the last input are computed again and thrown away.
  const uint8_t* panels[kRows];
  uint32_t panel_rows[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int32_t row = min(row_begin + r, product.rows - 1);
    panels[r] = product.panel_of(matrix, row);
    panel_rows[r] = static_cast<uint32_t>(row % kPanelRows);
  }
  uint32_t first_groups[kInputs];
  const int32_t input = product.input_of(output);
  const auto padded_groups = static_cast<uint32_t>(product.padded_cols / kGroupColumns);
  Int8Rows rows = product.quantized;
  rows.codes += static_cast<int64_t>(input) * product.padded_cols;
  rows.scales += static_cast<int64_t>(input) * padded_groups;
  rows.sums += static_cast<int64_t>(input) * padded_groups;
#pragma unroll
  for (int i = 0; i < kInputs; ++i)
    first_groups[i] = static_cast<uint32_t>(min(i, product.outputs - 1)) * padded_groups;

  float totals[kRows][kInputs] = {};
  const auto groups = static_cast<uint32_t>(product.cols / kGroupColumns);
#pragma unroll(kInputs == 1 ? 2 : 1)
  for (uint32_t group = lane; group < groups; group += kClasses) {
    WeightGroup<F> w[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r].load(group_place<F>(panels[r], product.row_blocks, panel_rows[r], group));
    }
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      InputGroup x;
      x.load(rows, first_groups[i] + group, F::kMinima == Minima::kFloat);
#pragma unroll
      for (int r = 0; r < kRows; ++r) totals[r][i] = add_product<F>(totals[r][i], w[r], x);
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      const float sum = add_lanes(totals[r][i]);
      const bool there = row_begin + r < product.rows && i < (product.ids == nullptr ? product.outputs : 1);
      if (lane == 0 && there) product.store(output + i, matrix, row_begin + r, sum);
    }
  }
}

template <class F, int kInputs>
void launch_vectors(Launches& stream, Products& products) {
  const unsigned blocks = products.place(
      [](const Product& each) { return blocks_of(each.rows, kVectorWarps * kVectorRows<kInputs>, INT32_MAX); });
  const dim3 grid(blocks, products.of[0].ids == nullptr ? 1 : static_cast<unsigned>(products.of[0].outputs));
  launch(multiply_vectors<F, kInputs>, grid, kVectorWarps * kWarp, 0, stream, products);
}

template <class Formats>
bool multiply_vectors_of(Launches& stream, Products& products) {
  return visit_format(Formats(), products.of[0].type, [&]<class F>() {
    const int32_t inputs = products.of[0].ids == nullptr ? products.of[0].outputs : 1;
    if (inputs == 1) return launch_vectors<F, 1>(stream, products);
    if (inputs == 2) return launch_vectors<F, 2>(stream, products);
    if (inputs <= 4) return launch_vectors<F, 4>(stream, products);
    launch_vectors<F, kVectorOutputs>(stream, products);
  });
}

}  // namespace cairn::cuda
