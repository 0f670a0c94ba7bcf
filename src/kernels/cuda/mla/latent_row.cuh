/// Layout of rows of MlaOperations in pages: whole, one after the other, as a head's keys are
/// (attention/kv_row.cuh).
#pragma once

#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {

/// A view's pages, with all sizes and offsets that a kernel needs in bytes.
struct LatentPages {
  std::byte* layer = nullptr;  ///< address of the layer's part of page 0
  int64_t page_stride = 0;
  int64_t row_bytes = 0;
  KvType type = KvType::kF32;
  int32_t tokens_per_row = 1;

  LatentPages() = default;
  explicit LatentPages(const KvView& kv)
      : layer(kv.base + kv.layer_offset),
        page_stride(kv.page_stride),
        row_bytes(kv_row_bytes(kv.type, kv.key_dim)),
        type(kv.type),
        tokens_per_row(kv.tokens_per_row) {}

  /// Row `row` of a sequence with these pages (kv_row_place).
  __device__ std::byte* row(const int32_t* pages, int32_t row) const {
    const int32_t last = (row + 1) * tokens_per_row - 1;
    return layer + pages[last / kPageTokens] * page_stride + last % kPageTokens / tokens_per_row * row_bytes;
  }
};

/// Whether the place's position is the last one of a row.
__device__ inline bool completes(const TokenPlace& place, int32_t tokens_per_row) {
  return (place.position + 1) % tokens_per_row == 0;
}

/// Number of rows that the batch's rows before row `number` complete. Called by all threads of the block together; x is
/// the block's only dimension.
__device__ inline int32_t completed_before(const Rows& rows, int32_t number, int32_t tokens_per_row) {
  if (tokens_per_row == 1) return number;
  __shared__ int32_t of_warps[kWarp];
  int32_t count = 0;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < number; i += static_cast<int32_t>(blockDim.x)) {
    if (completes(rows.places[i], tokens_per_row)) ++count;
  }
  count = __reduce_add_sync(kAllLanes, count);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = count;
  __syncthreads();
  count = 0;
  for (unsigned w = 0; w < blockDim.x / kWarp; ++w) count += of_warps[w];
  return count;
}

}  // namespace cairn::kernels::cuda
