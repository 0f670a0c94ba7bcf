/// Types shared by the kernels of one attention call: its arguments, and how the queries are divided among blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/attention/split_plan.h"
#include "kernels/cuda/kernels.h"

namespace cairn::kernels::cuda {

/// Softmax-weighted sums of single chunks, relative to their largest score: the scratch memory of a call whose chunks
/// are computed by different blocks (split-K). Chunk c of head h of row r, counted from the row's first, is entry (r *
/// heads + h) * kChunksMax + c.
struct Pieces {
  float2* numbers = nullptr;  ///< largest score, and sum of the exponentials
  float* values = nullptr;    ///< [.., value_dim]

  static int64_t bytes(int64_t queries, int32_t value_dim) {
    return queries * kChunksMax * (value_dim + 2) * static_cast<int64_t>(sizeof(float));
  }
  static Pieces at(void* scratch, int64_t queries) {
    auto* numbers = static_cast<float2*>(scratch);
    return {numbers, reinterpret_cast<float*>(numbers + queries * kChunksMax)};
  }
};
/// Maximum queries of a call whose chunks are computed by different blocks, unless a single row has more.
inline constexpr int64_t kSplitQueriesMax = 2048;
/// Number of queries for which pieces are kept. It grows with both arguments, so memory for larger calls suffices for
/// smaller ones.
inline int64_t split_queries(int64_t rows, int32_t heads) {
  return std::min(rows * heads, std::max<int64_t>(kSplitQueriesMax, heads));
}

/// A block has `tile_rows` rows of one slice and `tile_heads` query heads of one KV head; its results do not depend on
/// these numbers.
struct AttentionTiling {
  int32_t group = 1;  ///< query heads per KV head
  int32_t tile_heads = 1;
  int32_t head_tiles = 1;  ///< tiles per KV head
  int32_t tile_rows = 1;
  int32_t queries = 4;  ///< a multiple of 4
  bool staged = false;  ///< whether pages are copied to shared memory before they are decoded
  int32_t slots = 0;    ///< pages that a block of few_queries.cu keeps in shared memory
  int64_t shared_bytes = 0;
};

/// The positions that the row `number` rows after `place`, in the same slice, sees.
__device__ inline SeenPositions seen_by(const AttentionParams& params, const TokenPlace& place, int32_t number) {
  return seen_positions(place.position + number, place.slice_position, place.slice_rows, params);
}

struct AttentionCall {
  AttentionParams params;
  KvPages pages;
  int32_t key_dim;
  int32_t value_dim;
  Rows rows;
  AttentionTiling tiling;
  const float* q;
  float* out;
  Pieces pieces;

  __device__ SeenPositions seen_by_row(int64_t row) const { return seen_by(params, rows.places[row], 0); }
};

}  // namespace cairn::kernels::cuda
