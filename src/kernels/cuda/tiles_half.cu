// Products of matrices of 16-bit floats with many inputs: a block computes a tile of 64 or 128 rows by 128 outputs,
// class after class of steps (halves.cuh), each warp a part of the tile. Steps come into shared memory while those
// before them are multiplied.
//
// Estimate for an H100: a step of a large tile brings 16 KB for a million operations, which the second-level cache
// gives at about 350 TFLOP/s, and the instruction does not reach more than two thirds of the tensor cores' peak.
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/halves.cuh"
#include "kernels/cuda/tile.cuh"

namespace cairn::cuda {
namespace {

constexpr int kThreads = kTileThreads;
constexpr int kOutputs = 128;
constexpr int kStages = 4;
// Warps lie 2 by 4 in a tile; each has kOutputParts times 8 outputs.
constexpr int kRowWarps = 2;
constexpr int kOutputParts = 4;
static_assert(kThreads / kWarp * 8 * kOutputParts == kRowWarps * kOutputs);
// Grids of fewer tiles leave a GPU idle: then tiles are smaller.
constexpr int64_t kTilesWanted = 256;
constexpr int kPieces = kHalfStep / kHalfColumns;

// Of a step. The eight lanes that read or write shared memory at the same time have two neighbouring rows: all banks.
template <int kRowParts>
struct Stage {
  static constexpr int kRows = kRowWarps * 16 * kRowParts;
  alignas(16) uint4 weights[kRows][kPieces];
  alignas(16) uint4 inputs[kOutputs][kPieces];
};

template <int kRowParts>
struct Shared {
  Stage<kRowParts> stages[kStages];
  OutputListOf<kOutputs> list;
};

struct Tile {
  int32_t matrix = 0;
  int32_t row_begin = 0;
  const int32_t* outputs = nullptr;
  int32_t count = 0;
};

// Begins the copies of a step; rows and outputs beyond the last are that one again.
template <bool kWide, int kRowParts>
__device__ __forceinline__ void load_step(const Product& product, const Tile& tile, int32_t step,
                                          Stage<kRowParts>& stage) {
  constexpr int kRows = Stage<kRowParts>::kRows;
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const uint8_t* from = product.weight_row(tile.matrix, min(tile.row_begin + row, product.rows - 1));
    const int32_t column = step * kHalfStep + piece * kHalfColumns;
    if (kWide && column < product.cols) {
      __pipeline_memcpy_async(&stage.weights[row][piece], from + static_cast<int64_t>(column) * 2, sizeof(uint4));
    } else {
      stage.weights[row][piece] = load_halves<false>(from, column, product.cols);
    }
  }
#pragma unroll
  for (int i = threadIdx.x; i < kOutputs * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const int64_t input = product.input_of(tile.outputs[min(row, tile.count - 1)]);
    const uint16_t* from = product.halves.values + input * product.padded_cols + step * kHalfStep;
    __pipeline_memcpy_async(&stage.inputs[row][piece], from + piece * kHalfColumns, sizeof(uint4));
  }
}

// Steps in their order: class after class.
struct Walk {
  int32_t steps;
  int32_t step = 0;
  __device__ bool ended() const { return step >= steps; }
  __device__ void next() {
    step += kHalfClasses;
    if (step < steps) return;
    step = step % kHalfClasses + 1;
    if (step == kHalfClasses) step = steps;
  }
};

template <class F, int kRowParts>
__device__ __forceinline__ void multiply_stage(const Stage<kRowParts>& stage,
                                               float (&sums)[kRowParts][kOutputParts][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, g = static_cast<int>(threadIdx.x) % kWarp / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int row = warp % kRowWarps * 16 * kRowParts + g, output = warp / kRowWarps * 8 * kOutputParts + g;
  uint4 x[kOutputParts];
#pragma unroll
  for (int q = 0; q < kOutputParts; ++q) x[q] = stage.inputs[output + 8 * q][t];
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
    const uint4 upper = stage.weights[row + 16 * p][t], lower = stage.weights[row + 16 * p + 8][t];
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) multiply_step<F>(upper, lower, x[q], sums[p][q]);
  }
}

template <int kRowParts>
__device__ __forceinline__ void store(const Product& product, const Tile& tile,
                                      const float (&sums)[kRowParts][kOutputParts][4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
    for (int q = 0; q < kOutputParts; ++q) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t row = tile.row_begin + (warp % kRowWarps * kRowParts + p) * 16 + half_row(i, lane);
        const int32_t output = (warp / kRowWarps * kOutputParts + q) * 8 + half_output(i, lane);
        if (row < product.rows && output < tile.count)
          store_half_product(product, tile.outputs[output], tile.matrix, row, sums[p][q][i]);
      }
    }
  }
}

template <class F, bool kWide, int kRowParts>
__device__ __forceinline__ void multiply_tile(const Product& product, const Tile& tile, Shared<kRowParts>& shared) {
  Walk ahead{half_steps(product)};
  int loaded = 0;
  // An empty group of copies at the end keeps their count.
  const auto load_next = [&] {
    if (!ahead.ended()) {
      load_step<kWide>(product, tile, ahead.step, shared.stages[loaded % kStages]);
      ahead.next();
    }
    ++loaded;
    end_copies();
  };
  for (int i = 0; i < kStages - 1; ++i) load_next();
  float totals[kRowParts][kOutputParts][4];
  int stage = 0;
#pragma unroll 1
  for (int32_t of_class = 0; of_class < kHalfClasses; ++of_class) {
    float sums[kRowParts][kOutputParts][4] = {};
#pragma unroll 1
    for (int32_t step = of_class; step < half_steps(product); step += kHalfClasses) {
      wait_for_copies<kStages - 2>();
      __syncthreads();  // the step is there, and the one whose place the next takes has been multiplied
      load_next();
      multiply_stage<F>(shared.stages[stage % kStages], sums);
      ++stage;
    }
#pragma unroll
    for (int p = 0; p < kRowParts; ++p) {
#pragma unroll
      for (int q = 0; q < kOutputParts; ++q) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          totals[p][q][i] = of_class == 0 ? sums[p][q][i] : __fadd_rn(totals[p][q][i], sums[p][q][i]);
        }
      }
    }
  }
  wait_for_copies<0>();
  store(product, tile, totals);
  __syncthreads();  // all has been read: the next tile may come
}

template <class F, bool kWide, int kRowParts>
__global__ __launch_bounds__(kThreads, 1) void multiply_tiles(const __grid_constant__ Product product) {
  auto& shared = *reinterpret_cast<Shared<kRowParts>*>(shared_memory());
  const auto row_begin = static_cast<int32_t>(blockIdx.y) * Stage<kRowParts>::kRows;
  each_tile(product, shared.list, [&](int32_t matrix, const int32_t* outputs, int32_t count) {
    multiply_tile<F, kWide>(product, {matrix, row_begin, outputs, count}, shared);
  });
}

template <class F, bool kWide>
void start(Launches& stream, const Product& product) {
  const dim3 large = tile_grid(product, 64 * 2, kOutputs);
  if (int64_t{large.x} * large.y >= kTilesWanted) {
    return launch_tiles<Shared<4>>(multiply_tiles<F, kWide, 4>, stream, product, large);
  }
  launch_tiles<Shared<2>>(multiply_tiles<F, kWide, 2>, stream, product, tile_grid(product, 64, kOutputs));
}

}  // namespace

bool multiply_tiles_half(Launches& stream, const Product& product) {
  return visit_format(HalfFormats(), product.type, [&]<class F>() {
    reads_wide_halves(product) ? start<F, true>(stream, product) : start<F, false>(stream, product);
  });
}

}  // namespace cairn::cuda
