/// Products on the tensor cores with many inputs: a block computes a tile of 64 or 128 rows by 128 outputs, class after
/// class of steps (mma_operands.cuh), each warp a part of the tile. Steps are copied to shared memory while earlier
/// ones are multiplied; weights of quantised types are dequantised on the way.
///
/// Estimate for an H100: a step of a large tile is half a million multiply-adds, for which mma.sync takes about 400
/// cycles, and 64 KB of shared memory, read and written in 500. That bounds these products by about 470 TFLOP/s. A step
/// is about 220 instructions of a warp for Q4_K (of PTX, which become fewer), 32 of them mma.sync; a scheduler has two
/// warps, so they fit beside.
#pragma once

#include "kernels/cuda/matmul/gemm_tile.cuh"
#include "kernels/cuda/matmul/weight_operands.cuh"

namespace cairn::cuda {

inline constexpr int kStages = 4;
inline constexpr int kStageOutputs = 128;
// Warps are arranged 2 by 4 in a tile; each has kStageOutputParts times 8 outputs.
inline constexpr int kStageRowWarps = 2;
inline constexpr int kStageOutputParts = 4;
static_assert(kTileWarps * 8 * kStageOutputParts == kStageRowWarps * kStageOutputs);
/// Minimum number of tiles: grids of fewer leave a GPU idle, so then smaller tiles are used.
inline constexpr int64_t kTilesWanted = 256;

/// Shared memory of a step. The eight lanes that access it at the same time have two neighbouring rows, which covers
/// all banks.
template <int kRowParts>
struct TileStage {
  static constexpr int kRows = kStageRowWarps * 16 * kRowParts;
  alignas(16) uint4 weights[kRows][kPieces];
  alignas(16) uint4 inputs[kStageOutputs][kPieces];
};

template <int kRowParts>
struct TilesShared {
  TileStage<kRowParts> stages[kStages];
  OutputList<kStageOutputs> list;
};

struct Tile {
  int32_t matrix = 0;
  int32_t row_begin = 0;
  const int32_t* outputs = nullptr;
  int32_t count = 0;
};

/// A thread's part of the tile's inputs. Addresses are computed once, since with `ids` they need divisions.
class InputStage {
 public:
  /// Outputs beyond the last repeat it.
  __device__ __forceinline__ InputStage(const Product& product, const Tile& tile) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int64_t input = product.input_of(tile.outputs[min(output(i), tile.count - 1)]);
      from_[i] = product.halves.values + input * product.padded_cols + piece() * kHalfColumns;
    }
  }
  /// Starts copying a step.
  __device__ __forceinline__ void begin(int32_t step, uint4 (*to)[kPieces]) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      __pipeline_memcpy_async(&to[output(i)][piece()], from_[i] + step * kHalfStep, sizeof(uint4));
  }

 private:
  static constexpr int kCopies = kStageOutputs * kPieces / kTileThreads;
  __device__ static int output(int i) { return static_cast<int>(threadIdx.x) / kPieces + i * (kTileThreads / kPieces); }
  __device__ static int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

  const uint16_t* from_[kCopies];
};

template <bool kBfloat, int kRowParts>
__device__ __forceinline__ void multiply_stage(const TileStage<kRowParts>& stage,
                                               float (&sums)[kRowParts][kStageOutputParts][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int row = warp % kStageRowWarps * 16 * kRowParts + g,
            output = warp / kStageRowWarps * 8 * kStageOutputParts + g;
  uint4 x[kStageOutputParts];
#pragma unroll
  for (int q = 0; q < kStageOutputParts; ++q) x[q] = stage.inputs[output + 8 * q][t];
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
    const uint4 upper = stage.weights[row + 16 * p][t], lower = stage.weights[row + 16 * p + 8][t];
#pragma unroll
    for (int q = 0; q < kStageOutputParts; ++q) multiply_step<kBfloat>(upper, lower, x[q], sums[p][q]);
  }
}

template <class Weights, int kRowParts>
__device__ __forceinline__ void store_tile(const Product& product, const Tile& tile,
                                           const float (&sums)[kRowParts][kStageOutputParts][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
    for (int q = 0; q < kStageOutputParts; ++q) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t row = tile.row_begin + (warp % kStageRowWarps * kRowParts + p) * 16 + half_row(i, lane);
        const int32_t output = (warp / kStageRowWarps * kStageOutputParts + q) * 8 + half_output(i, lane);
        if (row < product.rows && output < tile.count)
          store_half_product(product, tile.outputs[output], tile.matrix, row, sums[p][q][i], Weights::kUnit);
      }
    }
  }
}

template <class Weights, int kRowParts>
__device__ __forceinline__ void multiply_tile(const Product& product, const Tile& tile,
                                              TilesShared<kRowParts>& shared) {
  using Stage = TileStage<kRowParts>;
  const int32_t steps = half_steps(product), of_class = steps_of_class(product);
  // In an incomplete tile, some warps may have no outputs.
  const bool has_outputs =
      static_cast<int32_t>(threadIdx.x) / kWarp / kStageRowWarps * 8 * kStageOutputParts < tile.count;
  typename Weights::template Stage<Stage::kRows, kTileThreads> weights(product, tile.matrix, tile.row_begin);
  const InputStage inputs(product, tile);
  const auto stage_of = [&](int32_t step) -> Stage& { return shared.stages[step % kStages]; };
  const auto begin = [&](int32_t step) {
    if (step < steps) {
      inputs.begin(step, stage_of(step).inputs);
      weights.begin(step, stage_of(step).weights);
    }
    end_copies();  // an empty group at the end keeps the count of groups
  };
  const auto finish = [&](int32_t step) {
    if (step < steps) weights.finish(stage_of(step).weights);
  };
  for (int32_t step = 0; step < kStages - 1; ++step) {
    begin(step);
    finish(step);
  }
  float totals[kRowParts][kStageOutputParts][4];
  int32_t step = 0;
#pragma unroll 1
  for (int32_t number = 0; number < kHalfClasses; ++number) {
    float sums[kRowParts][kStageOutputParts][4] = {};
#pragma unroll 1
    for (const int32_t end = min((number + 1) * of_class, steps); step < end; ++step) {
      wait_for_copies<kStages - 2>();
      __syncthreads();  // the step has arrived, and the step whose place the next one takes has been multiplied
      begin(step + kStages - 1);
      if (has_outputs) multiply_stage<Weights::kBfloat>(stage_of(step), sums);
      finish(step + kStages - 1);
    }
#pragma unroll
    for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
      for (int q = 0; q < kStageOutputParts; ++q) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          totals[p][q][i] = number == 0 ? sums[p][q][i] : __fadd_rn(totals[p][q][i], sums[p][q][i]);
        }
      }
    }
  }
  wait_for_copies<0>();
  store_tile<Weights>(product, tile, totals);
  __syncthreads();  // all has been read: the next tile may start
}

template <class Weights, int kRowParts>
__global__ __launch_bounds__(kTileThreads, 1) void multiply_tiles(const __grid_constant__ Product product) {
  auto& shared = *reinterpret_cast<TilesShared<kRowParts>*>(shared_memory());
  const auto row_begin = static_cast<int32_t>(blockIdx.y) * TileStage<kRowParts>::kRows;
  each_tile(product, shared.list, [&](int32_t matrix, const int32_t* outputs, int32_t count) {
    multiply_tile<Weights>(product, {matrix, row_begin, outputs, count}, shared);
  });
}

template <class Weights>
void start_tiles(LaunchQueue& stream, const Product& product) {
  const dim3 large = tile_grid(product, TileStage<4>::kRows, kStageOutputs);
  if (int64_t{large.x} * large.y >= kTilesWanted)
    return launch_tiles<TilesShared<4>>(multiply_tiles<Weights, 4>, stream, product, large);
  const dim3 small = tile_grid(product, TileStage<2>::kRows, kStageOutputs);
  launch_tiles<TilesShared<2>>(multiply_tiles<Weights, 2>, stream, product, small);
}

template <class Formats>
bool multiply_tiles_of(LaunchQueue& stream, const Product& product) {
  return visit_format(Formats(), product.type, [&]<class F>() { start_tiles<PanelWeights<F>>(stream, product); });
}

}  // namespace cairn::cuda
