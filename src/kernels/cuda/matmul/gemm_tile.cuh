/// Code shared by products of many outputs: a block of threads computes a tile of the result, some rows of a matrix for
/// some outputs.
#pragma once

#include <cstdint>

#include "kernels/cuda/matmul/product.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace cairn::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * kWarp;

/// Outputs of one matrix, kOutputs per tile, and the memory for finding them.
template <int kOutputs>
struct OutputList {
  int32_t outputs[kOutputs + kTileThreads];
  int32_t found[kTileWarps];

  /// Appends those of outputs [begin, begin + kTileThreads) that chose `matrix` to the first `count`. Returns the new
  /// count.
  __device__ int32_t append(const Product& product, int32_t matrix, int32_t begin, int32_t count) {
    const auto warp = static_cast<int>(threadIdx.x / kWarp);
    const int32_t output = begin + static_cast<int32_t>(threadIdx.x);
    const bool chosen = output < product.outputs && product.ids[output] == matrix;
    const uint32_t votes = __ballot_sync(kAllLanes, chosen);
    if (threadIdx.x % kWarp == 0) found[warp] = __popc(votes);
    __syncthreads();
    int32_t at = count + __popc(votes & ((1u << (threadIdx.x % kWarp)) - 1));
    for (int w = 0; w < kTileWarps; ++w) {
      if (w < warp) at += found[w];
      count += found[w];
    }
    if (chosen) outputs[at] = output;
    __syncthreads();
    return count;
  }

  /// Moves the outputs after the last whole tile, fewer than a tile, to the front.
  __device__ void keep_from(int32_t first, int32_t count) {
    const int32_t from = first + static_cast<int32_t>(threadIdx.x);
    if (from < count) outputs[threadIdx.x] = outputs[from];
    __syncthreads();
  }
};

/// Calls tile(matrix, outputs, count) for every tile of the block: one without `ids`, else those of matrix blockIdx.x.
/// Called by all threads; `outputs` are read until the call returns, and the call begins and ends with a barrier.
template <int kOutputs, class Tile>
__device__ void each_tile(const Product& product, OutputList<kOutputs>& list, Tile tile) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  if (product.ids == nullptr) {
    const int32_t begin = block * kOutputs;
    if (threadIdx.x < kOutputs) list.outputs[threadIdx.x] = begin + static_cast<int32_t>(threadIdx.x);
    __syncthreads();
    tile(0, list.outputs, min(kOutputs, product.outputs - begin));
    return;
  }
  int32_t count = 0;
  for (int32_t begin = 0; begin < product.outputs; begin += kTileThreads) {
    count = list.append(product, block, begin, count);
    int32_t first = 0;
    for (; count - first >= kOutputs; first += kOutputs) tile(block, list.outputs + first, kOutputs);
    if (first > 0) list.keep_from(first, count);
    count -= first;
  }
  if (count > 0) tile(block, list.outputs, count);
}

/// The grid: a block for each tile or, with `ids`, for each matrix and `rows` of it.
inline dim3 tile_grid(const Product& product, int64_t rows, int64_t outputs) {
  const unsigned columns =
      product.ids == nullptr ? blocks_of(product.outputs, outputs, INT32_MAX) : static_cast<unsigned>(product.matrices);
  return {columns, blocks_of(product.rows, rows, kGridMax)};
}

/// Launches a kernel of tiles with a `Shared` as its shared memory.
template <class Shared>
void launch_tiles(void (*kernel)(Product), LaunchQueue& stream, const Product& product, dim3 grid) {
  // Two blocks of a multiprocessor need more shared memory than the default. The attributes belong to the current
  // device, so they are set every time.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  launch(kernel, grid, kTileThreads, sizeof(Shared), stream, product);
}

}  // namespace cairn::cuda
