/// Products of quantised matrices with many inputs, on the tensor cores.
///
/// A pass goes through the columns in stages of eight groups, one for each warp: the block takes the weights of a stage
/// apart and brings the inputs into shared memory, then each warp multiplies its group, 64 rows by 32 outputs. The sums
/// of a group are integers, so that the tensor cores' order is nobody's concern; from there on it is add_group's.
///
/// An instruction's k are taken by the octet: what it calls k 4 t .. 4 t + 3 and 16 + 4 t .. 19 + 4 t are columns 8 t
/// .. 8 t + 7 of the group, for weights and inputs alike, so that a lane reads them at once.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tile_stage.cuh"

namespace cairn::cuda {

struct TilesShared {
  TileSums sums;
  TileStage stage;
  OutputList list;
};

/// What a lane has of its group's inputs for eight outputs: as multiply_int8 wants the codes, and for two the numbers.
struct InputPart {
  uint32_t codes[2];
  float2 scales;
  float2 scaled_sums;
};

// Integers below 2^22 are added to this number's bits as to its last place: a sum that starts with them is a float.
constexpr int32_t kSumBits = 0x4b400000;
constexpr float kSumStart = 12582912.0f;  // 1.5 * 2^23

__device__ __forceinline__ void multiply_to_floats(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&sums)[4]) {
  int32_t c[4] = {kSumBits, kSumBits, kSumBits, kSumBits};
  multiply_int8(a, b, c);
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] = __fsub_rn(__int_as_float(c[i]), kSumStart);
}

/// As multiply_to_floats, columns [0, 16) times the first factors of the two rows, the rest times the second.
template <class F>
__device__ __forceinline__ void multiply_halves(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                const uint32_t (&factors)[2], float (&sums)[4]) {
  // Octets 0 and 1 are the first half: the other lanes' weights do not count.
  const bool first_half = threadIdx.x % 4 < 2;
  uint32_t first[4], second[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = first_half ? a[i] : 0;
    second[i] = first_half ? 0 : a[i];
  }
  int32_t first_sums[4] = {}, second_sums[4] = {};
  multiply_int8(first, b, first_sums);
  multiply_int8(second, b, second_sums);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = factors[i / 2];
    sums[i] = join_halves<F>(first_factor<F>(pair), first_sums[i], second_factor<F>(pair), second_sums[i]);
  }
}

/// The sums of a row's integer minima times the inputs' codes: weights that are the minimum of their half.
__device__ __forceinline__ void multiply_minima(const uint32_t (&minima)[2], const uint32_t (&b)[2], float (&sums)[4]) {
  const bool first_half = threadIdx.x % 4 < 2;
  uint32_t a[4];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int32_t minimum = first_half ? first_of(minima[r]) : second_of(minima[r]);
    a[r] = a[r + 2] = static_cast<uint32_t>(minimum) * 0x01010101u;
  }
  multiply_to_floats(a, b, sums);
}

/// Sixteen rows from `row`, eight outputs: adds the group's terms to their four sums in this lane.
template <class F>
__device__ __forceinline__ void multiply_part(const TileStage& stage, int at, int row, const uint32_t (&a)[4],
                                              const InputPart& input, float* sums) {
  float products[4];
  if constexpr (F::kFactors != Factors::kNone) {
    const uint32_t factors[2] = {stage.factors[at][row], stage.factors[at][row + 8]};
    multiply_halves<F>(a, input.codes, factors, products);
  } else {
    multiply_to_floats(a, input.codes, products);
  }
  const float input_scales[2] = {input.scales.x, input.scales.y};
  float minima[4] = {};
  if constexpr (F::kMinima == Minima::kFloat) {
    minima[0] = minima[2] = input.scaled_sums.x;
    minima[1] = minima[3] = input.scaled_sums.y;
  }
  if constexpr (F::kMinima == Minima::kInteger) {
    const uint32_t pairs[2] = {stage.integer_minima[at][row], stage.integer_minima[at][row + 8]};
    multiply_minima(pairs, input.codes, minima);
#pragma unroll
    for (int i = 0; i < 4; ++i) minima[i] = __fmul_rn(input_scales[i % 2], minima[i]);
  }
  const float scales[2] = {stage.scales[at][row], stage.scales[at][row + 8]};
  float minimum[2] = {};
  if constexpr (F::kMinima != Minima::kNone) {
    minimum[0] = stage.minima[at][row];
    minimum[1] = stage.minima[at][row + 8];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sums[i] = add_group<F>(sums[i], scales[i / 2], minimum[i / 2], input_scales[i % 2], products[i], minima[i]);
  }
}

constexpr int kRowParts = kTileRows / 16;
constexpr int kOutputParts = kTileOutputs / 8;

/// Element 4 (p * kOutputParts + q) + i is c[i] of multiply_int8, of rows 16 p and outputs 8 q.
__device__ __forceinline__ TilePlace mma_place(int element, int lane) {
  const int part = element / 4, i = element % 4;
  return {part / kOutputParts * 16 + lane / 4 + i / 2 * 8, part % kOutputParts * 8 + lane % 4 * 2 + i % 2};
}

/// The warp's group of the stage.
template <class F>
__device__ __forceinline__ void multiply_stage(const TileStage& stage, int32_t count, float (&sums)[kTileElements]) {
  const int at = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int column = at * kGroupColumns + 8 * t;
  InputPart inputs[kOutputParts];
#pragma unroll
  for (int q = 0; q < kOutputParts; ++q) {
    const auto codes = *reinterpret_cast<const uint2*>(&stage.inputs[8 * q + g][column]);
    inputs[q].codes[0] = codes.x;
    inputs[q].codes[1] = codes.y;
    inputs[q].scales = *reinterpret_cast<const float2*>(&stage.input_scales[at][8 * q + 2 * t]);
    if constexpr (F::kMinima == Minima::kFloat) {
      inputs[q].scaled_sums = *reinterpret_cast<const float2*>(&stage.scaled_sums[at][8 * q + 2 * t]);
    }
  }
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
    const int row = 16 * p + g;
    const auto low = *reinterpret_cast<const uint2*>(&stage.weights[row][column]);
    const auto high = *reinterpret_cast<const uint2*>(&stage.weights[row + 8][column]);
    const uint32_t a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) {
      if (8 * q < count) multiply_part<F>(stage, at, row, a, inputs[q], sums + 4 * (p * kOutputParts + q));
    }
  }
}

template <class F>
__global__ __launch_bounds__(kTileThreads, 2) void multiply_tiles(const __grid_constant__ Product product) {
  auto& shared = *reinterpret_cast<TilesShared*>(shared_memory());
  const auto row_begin = static_cast<int32_t>(blockIdx.y) * kTileRows;
  const auto groups = static_cast<uint32_t>(product.cols / kGroupColumns);
  each_tile(product, shared.list, [&](int32_t matrix, const int32_t* outputs, int32_t count) {
#pragma unroll 1
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      float sums[kTileElements] = {};
      for (uint32_t first = pass * kStageGroups; first < groups; first += kClasses) {
        stage_weights<F>(product, matrix, row_begin, first, shared.stage);
        stage_inputs(product, outputs, count, first, F::kMinima == Minima::kFloat, shared.stage);
        __syncthreads();
        if (first + threadIdx.x / kWarp < groups) multiply_stage<F>(shared.stage, count, sums);
        __syncthreads();
      }
      shared.sums.add(static_cast<int>(pass), sums);
    }
    store_tile(product, shared.sums, matrix, row_begin, outputs, count, mma_place);
  });
}

template <class Formats>
bool multiply_tiles_of(Launches& stream, const Product& product) {
  return visit_format(Formats(), product.type, [&]<class F>() {
    launch_tiles<TilesShared>(multiply_tiles<F>, stream, product, tile_grid(product));
  });
}

}  // namespace cairn::cuda
