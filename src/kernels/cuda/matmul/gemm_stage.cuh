/// Tiles of products on the tensor cores with many inputs (gemm.cuh): their shapes, the shared memory of their steps,
/// the copies of inputs to it, and the sums of classes.
#pragma once

#include "kernels/cuda/matmul/gemm_tile.cuh"
#include "kernels/cuda/matmul/mma_operands.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"

namespace cairn::kernels::cuda {

/// Rows of a tile: a panel for each warp.
inline constexpr int kTilePanels = kTileWarps;
inline constexpr int kTileRows = kTilePanels * kPanelRows;

/// The arrangement of a tile's warps, kOfRows of them along its rows; each has kRows times 16 rows by kOutputs times 8
/// outputs.
template <int kOfRows, int kRows, int kOutputs>
struct TileShape {
  static constexpr int kRowWarps = kOfRows;
  static constexpr int kRowParts = kRows;
  static constexpr int kOutputParts = kOutputs;
  static constexpr int kHalfParts = kOutputs / 2;  // parts of half of the outputs
  static constexpr int kTileOutputs = kTileWarps / kOfRows * 8 * kOutputs;
  /// Steps whose weights are in registers before they are dequantised: a large tile's step takes as long as a load.
  static constexpr int kCodeSets = kRows * kOutputs > 16 ? 1 : 2;
  /// Blocks of a multiprocessor: as many as have registers enough.
  static constexpr int kBlocks = kRows * kOutputs <= 8 ? 2 : 1;
  static_assert(kOfRows * kRows == kTilePanels && kRows % 2 == 0 && kOutputs % 2 == 0);
  /// Row parts whose totals are in registers; those of others are in shared memory.
  static constexpr int kKeptParts = kRows * kOutputs <= 16 ? kRows : 0;
  static constexpr int kSharedTotals = (kRows - kKeptParts) * kOutputs;
};
using LargeTile = TileShape<2, 4, 8>;
using MediumTile = TileShape<4, 2, 8>;
using SmallTile = TileShape<4, 2, 4>;

/// Shared memory of a step. Lanes that access it at the same time access neighbouring words.
template <class Shape>
struct TileStage {
  /// For each panel the left operands of both instructions of the step, a lane's four words together.
  alignas(16) uint4 weights[kTilePanels][2][kWarp];
  alignas(16) uint4 inputs[Shape::kTileOutputs][kPieces];
};

/// The sums of earlier classes that are not in registers: four of each lane's numbers together.
template <int kCount>
struct SharedTotals {
  alignas(16) float4 of_threads[kCount][kTileThreads];
};
template <>
struct SharedTotals<0> {};

template <class Shape>
struct TilesShared {
  TileStage<Shape> stages[kQuad];
  [[no_unique_address]] SharedTotals<Shape::kSharedTotals> totals;
  OutputList<Shape::kTileOutputs> list;
};

struct Tile {
  int32_t matrix = 0;
  int32_t row_begin = 0;
  const int32_t* outputs = nullptr;
  int32_t count = 0;
};

/// A thread's part of the tile's inputs. Addresses are computed once, since with `ids` they need divisions.
template <class Shape>
class InputStage {
 public:
  static constexpr int kCopies = Shape::kTileOutputs * kPieces / kTileThreads;

  /// Outputs beyond the last repeat it.
  __device__ __forceinline__ InputStage(const Product& product, const Tile& tile)
      : values_(reinterpret_cast<const uint4*>(product.halves.values)) {
    const uint32_t pieces = static_cast<uint32_t>(product.padded_cols) / kHalfColumns;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int32_t input = product.input_of(tile.outputs[min(output(i), tile.count - 1)]);
      from_[i] = static_cast<uint32_t>(input) * pieces + static_cast<uint32_t>(piece());
    }
  }
  /// Starts copy i of a step.
  __device__ __forceinline__ void begin(int i, int32_t step, TileStage<Shape>& to) const {
    const uint32_t from = from_[i] + static_cast<uint32_t>(step) * kPieces;
    __pipeline_memcpy_async(&to.inputs[output(i)][piece()], values_ + from, sizeof(uint4));
  }

 private:
  __device__ static int output(int i) { return static_cast<int>(threadIdx.x) / kPieces + i * (kTileThreads / kPieces); }
  __device__ static int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

  const uint4* values_;
  uint32_t from_[kCopies];  // below 2^32: 64 GiB of inputs
};

/// The sums of a warp's part of a tile.
template <class Shape>
using TileSums = float[Shape::kRowParts][Shape::kOutputParts][4];

/// The sums of the classes so far.
template <class Shape>
class Totals {
 public:
  __device__ __forceinline__ explicit Totals(SharedTotals<Shape::kSharedTotals>& shared) : shared_(shared) {}

  /// Adds the sums of class `number`; then `sums` are those of all classes up to it.
  __device__ __forceinline__ void add(int32_t number, TileSums<Shape>& sums) {
#pragma unroll
    for (int p = 0; p < Shape::kRowParts; ++p) {
#pragma unroll
      for (int q = 0; q < Shape::kOutputParts; ++q) {
        if constexpr (Shape::kSharedTotals > 0) {
          if (p >= Shape::kKeptParts) {
            add_to(shared_.of_threads[(p - Shape::kKeptParts) * Shape::kOutputParts + q][threadIdx.x], number,
                   sums[p][q]);
            continue;
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& kept = kept_[p % kKept][q][i];
          kept = number == 0 ? sums[p][q][i] : __fadd_rn(kept, sums[p][q][i]);
          sums[p][q][i] = kept;
        }
      }
    }
  }

 private:
  static constexpr int kKept = Shape::kKeptParts > 0 ? Shape::kKeptParts : 1;

  __device__ __forceinline__ static void add_to(float4& total, int32_t number, float (&sums)[4]) {
    if (number > 0) {
      const float4 before = total;
      sums[0] = __fadd_rn(before.x, sums[0]);
      sums[1] = __fadd_rn(before.y, sums[1]);
      sums[2] = __fadd_rn(before.z, sums[2]);
      sums[3] = __fadd_rn(before.w, sums[3]);
    }
    if (number < kHalfClasses - 1) total = make_float4(sums[0], sums[1], sums[2], sums[3]);
  }

  SharedTotals<Shape::kSharedTotals>& shared_;
  float kept_[kKept][Shape::kOutputParts][4] = {};
};

}  // namespace cairn::kernels::cuda
