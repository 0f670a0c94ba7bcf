/// What a block of threads has in shared memory of one stage of a product of quantised matrices: eight groups of
/// columns, one for each warp, of a tile's rows and outputs.
#pragma once

#include "kernels/cuda/formats.cuh"
#include "kernels/cuda/tile.cuh"

namespace cairn::cuda {

inline constexpr int kStageGroups = kPassClasses;
inline constexpr int kStageColumns = kStageGroups * kGroupColumns;
// Pitches that put what the lanes of a warp read at the same time into different banks.
inline constexpr int kCodesPitch = kStageColumns + 32;
inline constexpr int kRowsPitch = kTileRows + 4;
inline constexpr int kOutputsPitch = kTileOutputs + 4;

/// Weights and inputs of a stage.
struct TileStage {
  alignas(16) uint8_t weights[kTileRows][kCodesPitch];
  alignas(16) uint8_t inputs[kTileOutputs][kCodesPitch];
  float scales[kStageGroups][kRowsPitch];
  float minima[kStageGroups][kRowsPitch];
  uint32_t factors[kStageGroups][kRowsPitch];         // of the first 16 columns in the lower half
  uint32_t integer_minima[kStageGroups][kRowsPitch];  // the same
  alignas(8) float input_scales[kStageGroups][kOutputsPitch];
  alignas(8) float scaled_sums[kStageGroups][kOutputsPitch];
};

__device__ __forceinline__ uint32_t pack_pair(const int32_t (&pair)[2]) {
  return (static_cast<uint32_t>(pair[0]) & 0xffffu) | static_cast<uint32_t>(pair[1]) << 16;
}
__device__ __forceinline__ int32_t first_of(uint32_t pair) { return static_cast<int16_t>(pair & 0xffffu); }
__device__ __forceinline__ int32_t second_of(uint32_t pair) { return static_cast<int32_t>(pair) >> 16; }

/// Factors as pairs: of kLarge the upper halves of floats.
template <class F>
__device__ __forceinline__ uint32_t pack_factors(const int32_t (&factors)[2]) {
  if constexpr (F::kFactors != Factors::kLarge) return pack_pair(factors);
  const uint32_t first = __float_as_uint(static_cast<float>(factors[0]));
  return first >> 16 | (__float_as_uint(static_cast<float>(factors[1])) & 0xffff0000u);
}
template <class F>
__device__ __forceinline__ auto first_factor(uint32_t pair) {
  if constexpr (F::kFactors == Factors::kLarge) {
    return float_of_bits(pair << 16);
  } else {
    return first_of(pair);
  }
}
template <class F>
__device__ __forceinline__ auto second_factor(uint32_t pair) {
  if constexpr (F::kFactors == Factors::kLarge) {
    return float_of_bits(pair & 0xffff0000u);
  } else {
    return second_of(pair);
  }
}

/// Rows beyond the matrix are its last one again.
template <class F>
__device__ __forceinline__ GroupPlace place_in_tile(const Product& product, int32_t matrix, int32_t row,
                                                    uint32_t group) {
  const int32_t there = min(row, product.rows - 1);
  return group_place<F>(product.panel_of(matrix, there), product.row_blocks, static_cast<uint32_t>(there % kPanelRows),
                        group);
}

/// Groups beyond a row's end are left as they are, nobody reads them.
template <class F>
__device__ __forceinline__ void stage_weights(const Product& product, int32_t matrix, int32_t row_begin,
                                              uint32_t first_group, TileStage& stage) {
  const auto groups = static_cast<uint32_t>(product.cols / kGroupColumns);
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const uint32_t group = first_group + lane / kGroupOctets;
  if (group < groups) {
#pragma unroll 4
    for (uint32_t i = 0; i < kTileRows / kTileWarps; ++i) {
      const uint32_t row = i * kTileWarps + warp;
      const GroupPlace place = place_in_tile<F>(product, matrix, row_begin + static_cast<int32_t>(row), group);
      const Octet codes = F::codes(place, static_cast<int>(lane % kGroupOctets));
      *reinterpret_cast<uint2*>(&stage.weights[row][8 * lane]) = make_uint2(codes.words[0], codes.words[1]);
    }
  }
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < kTileRows * kStageGroups; i += kTileThreads) {
    const uint32_t row = i / kStageGroups, at = i % kStageGroups;
    if (first_group + at >= groups) continue;
    const GroupScales scales =
        F::scales(place_in_tile<F>(product, matrix, row_begin + static_cast<int32_t>(row), first_group + at));
    stage.scales[at][row] = scales.scale;
    if constexpr (F::kMinima != Minima::kNone) stage.minima[at][row] = scales.minimum;
    if constexpr (F::kFactors != Factors::kNone) stage.factors[at][row] = pack_factors<F>(scales.factors);
    if constexpr (F::kMinima == Minima::kInteger) stage.integer_minima[at][row] = pack_pair(scales.minima);
  }
}

/// Outputs beyond the last are that one again. Inputs have columns of zeros to the stage's end.
__device__ __forceinline__ void stage_inputs(const Product& product, const int32_t* outputs, int32_t count,
                                             uint32_t first_group, bool with_sums, TileStage& stage) {
  constexpr int kPieces = kStageColumns / 16;
  const auto last = static_cast<uint32_t>(count - 1);
#pragma unroll
  for (uint32_t i = threadIdx.x; i < kTileOutputs * kPieces; i += kTileThreads) {
    const uint32_t row = i / kPieces, piece = i % kPieces;
    const int64_t input = product.input_of(outputs[min(row, last)]);
    const int8_t* codes = product.quantized.codes + input * product.padded_cols + first_group * kGroupColumns;
    *reinterpret_cast<uint4*>(&stage.inputs[row][16 * piece]) = __ldg(reinterpret_cast<const uint4*>(codes) + piece);
  }
  static_assert(kTileOutputs * kStageGroups == kTileThreads);
  const uint32_t row = threadIdx.x / kStageGroups, at = threadIdx.x % kStageGroups;
  const int64_t input = product.input_of(outputs[min(row, last)]);
  const int64_t from = input * (product.padded_cols / kGroupColumns) + first_group + at;
  const float scale = __ldg(product.quantized.scales + from);
  stage.input_scales[at][row] = scale;
  if (with_sums) {
    stage.scaled_sums[at][row] = __fmul_rn(scale, static_cast<float>(__ldg(product.quantized.sums + from)));
  }
}

}  // namespace cairn::cuda
