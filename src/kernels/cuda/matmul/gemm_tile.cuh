/// Code shared by products of many outputs: a block of threads computes a tile of the result, some rows of a matrix for
/// some outputs.
#pragma once

#include <cstdint>

#include "kernels/cuda/matmul/product.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * kWarp;

/// Outputs of one matrix, kOutputs per tile, and the memory for finding them.
template <int kOutputs>
struct OutputList {
  int32_t outputs[kOutputs + kTileThreads];
  int32_t found[kTileWarps];

  /// Appends the outputs of those threads that have `chosen` to the first `count`. Returns the new count.
  __device__ int32_t append(int32_t output, bool chosen, int32_t count) {
    const auto warp = static_cast<int>(threadIdx.x / kWarp);
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

  /// Removes the first `removed` of `count` outputs; at most kTileThreads are left.
  __device__ void remove(int32_t removed, int32_t count) {
    const int32_t from = removed + static_cast<int32_t>(threadIdx.x);
    const int32_t output = from < count ? outputs[from] : 0;
    __syncthreads();
    if (from < count) outputs[threadIdx.x] = output;
    __syncthreads();
  }
};

/// Calls tile(matrix, outputs, count) for every tile of the block: one without `ids`, else those of matrix blockIdx.x.
/// Called by all threads; `outputs` are read until the call returns, and the call begins and ends with a barrier. There
/// is one call, as the code of a tile is large.
template <int kOutputs, class Tile>
__device__ void each_tile(const Product& product, OutputList<kOutputs>& list, Tile tile) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  int32_t count = 0, begin = 0;  // outputs in the list, and outputs considered
  // The matrix that the thread's output of those from `begin` on has chosen, loaded ahead.
  const auto choice = [&](int32_t from) {
    const int32_t output = from + static_cast<int32_t>(threadIdx.x);
    return output < product.outputs ? product.ids[output] : -1;
  };
  int32_t chosen = -1;
  if (product.ids == nullptr) {
    const int32_t first = block * kOutputs;
    if (threadIdx.x < kOutputs) list.outputs[threadIdx.x] = first + static_cast<int32_t>(threadIdx.x);
    __syncthreads();
    count = min(kOutputs, product.outputs - first);
    begin = product.outputs;
  } else {
    chosen = choice(0);
  }
#pragma unroll 1
  for (;;) {
#pragma unroll 1
    for (; count < kOutputs && begin < product.outputs; begin += kTileThreads) {
      const int32_t next = choice(begin + kTileThreads);
      count = list.append(begin + static_cast<int32_t>(threadIdx.x), chosen == block, count);
      chosen = next;
    }
    if (count == 0) return;
    const int32_t of_tile = min(count, kOutputs);
    tile(product.ids == nullptr ? 0 : block, list.outputs, of_tile);
    list.remove(of_tile, count);
    count -= of_tile;
  }
}

/// The grid: along x a block for each tile's outputs or, with `ids`, for each matrix; along y one for each tile's rows.
inline dim3 tile_grid(const Products& products, int64_t outputs, unsigned row_blocks) {
  const Product& any = products.of[0];
  const unsigned columns =
      any.ids == nullptr ? blocks_of(any.outputs, outputs, INT32_MAX) : static_cast<unsigned>(any.matrices);
  return {columns, row_blocks};
}

/// Launches a kernel of tiles, which calls trigger_dependents() and wait_for_dependencies(), with a `Shared` as its
/// shared memory.
template <class Shared>
void launch_tiles(void (*kernel)(Products), LaunchQueue& stream, const Products& products, dim3 grid) {
  // The kernels need more shared memory than the default. The attributes belong to the current device, so they are set
  // every time.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  launch_dependent(kernel, grid, kTileThreads, sizeof(Shared), stream, products);
}

}  // namespace cairn::kernels::cuda
