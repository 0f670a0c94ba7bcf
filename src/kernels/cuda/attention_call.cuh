/// What the kernels of one call of attention share: its arguments, and how the queries are dealt to blocks.
#pragma once

#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/kv_row.cuh"
#include "kernels/cuda/operations.h"

namespace cairn::cuda {

/// Softmax-weighted sums of single chunks, relative to their largest score: the scratch memory of a call whose chunks
/// go to different blocks. Chunk c of head h of row r, counted from the row's first, is entry (r * heads + h) *
/// kChunksMax + c.
struct Pieces {
  float2* numbers = nullptr;  ///< largest score, sum of the exponentials
  float* values = nullptr;    ///< [.., value_dim]
};

/// A block has `tile_rows` rows of one slice and `tile_heads` query heads of one KV head; its results do not depend on
/// how many.
struct AttentionTiling {
  int32_t group = 1;  ///< query heads of a KV head
  int32_t tile_heads = 1;
  int32_t head_tiles = 1;  ///< tiles of a KV head
  int32_t tile_rows = 1;
  int32_t queries = 4;  ///< a multiple of 4
  bool staged = false;  ///< pages lie in shared memory before they are decoded
  int64_t shared_bytes = 0;
};

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
};

/// What the row `number` rows after `place`, in the same slice, sees.
__device__ inline SeenPositions seen_by(const AttentionParams& params, const RowPlace& place, int32_t number) {
  return seen_positions(place.position + number, place.slice_position, place.slice_rows, params.causal, params.window);
}

/// Writes `out` from the pieces that each row has.
void merge_pieces(cudaStream_t stream, const AttentionCall& call);

}  // namespace cairn::cuda
