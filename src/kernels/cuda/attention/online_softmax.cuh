/// Online softmax of a block's queries, independent of how the sums are computed: it starts the sums of a chunk, and at
/// its end writes them as pieces or merges them with those of the chunks before.
///
/// A `Call` has the members of an AttentionCall that are used here. A `Tile` gives the block's queries (queries,
/// row_of, head_of), what each sees (seen_by_query) and the size of their chunks.
#pragma once

#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/attention/page.cuh"

namespace cairn::kernels::cuda {

/// Bytes of shared memory of the QueryArrays.
constexpr int64_t query_array_bytes(int32_t queries, int32_t key_dim, int32_t value_dim) {
  const int64_t floats = int64_t{queries} * (key_columns(key_dim) + value_columns(value_dim) + kNumbersOfQuery) +
                         kPageTokens * weights_stride(queries);
  return floats * static_cast<int64_t>(sizeof(float));
}
/// Lays out the arrays at `next` and moves it behind them.
__device__ inline QueryArrays lay_out_queries(int32_t queries, int32_t key_dim, int32_t value_dim, float*& next) {
  const auto take = [&next](int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  QueryArrays arrays;
  arrays.count = queries;
  arrays.queries = take(int64_t{queries} * key_columns(key_dim));
  arrays.sums = take(int64_t{queries} * value_columns(value_dim));
  arrays.weights = take(int64_t{kPageTokens} * weights_stride(queries));
  arrays.query_scale = take(queries);
  arrays.largest = take(queries);
  arrays.total = take(queries);
  arrays.factor = take(queries);
  arrays.joined_largest = take(queries);
  arrays.joined_total = take(queries);
  arrays.keep = take(queries);
  arrays.take = take(queries);
  arrays.finish = take(queries);
  return arrays;
}

/// Resets the sums for a new chunk.
__device__ inline void clear_sums(const QueryArrays& arrays, int32_t value_dim) {
  const int32_t sums = arrays.count * value_columns(value_dim);
  for (int32_t i = threadIdx.x; i < sums; i += kAttentionThreads) arrays.sums[i] = 0;
  for (int32_t i = threadIdx.x; i < arrays.count; i += kAttentionThreads) {
    arrays.largest[i] = -INFINITY;
    arrays.total[i] = 0;
    arrays.factor[i] = 1;
  }
}

__device__ inline void begin_sums(const QueryArrays& arrays, int32_t value_dim) {
  for (int32_t i = threadIdx.x; i < arrays.count; i += kAttentionThreads) arrays.joined_total[i] = 0;
  clear_sums(arrays, value_dim);
}

template <class Call, class Tile>
__device__ void begin_tile(const Call& call, const Tile& tile, const QueryArrays& arrays) {
  const int32_t columns = key_columns(call.key_dim), warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int32_t i = warp; i < arrays.count; i += kAttentionWarps) {
    const float* q = call.q + (tile.row_of(i) * call.params.heads + tile.head_of(i)) * call.key_dim;
    const bool filled = i < tile.queries();
    for (int32_t d = lane; d < columns; d += kWarp) {
      arrays.queries[i * columns + d] = filled && d < call.key_dim ? q[d] : 0.0f;
    }
  }
  begin_sums(arrays, call.value_dim);
}

/// Writes each query's sums over `chunk` as a piece of its row.
template <class Call, class Tile>
__device__ void store_pieces(const Call& call, const Tile& tile, const QueryArrays& arrays, int32_t chunk) {
  const int32_t dim = call.value_dim, columns = value_columns(dim), lane = threadIdx.x % kWarp;
  for (int32_t i = threadIdx.x / kWarp; i < tile.queries(); i += kAttentionWarps) {
    const Chunks chunks = chunks_of(tile.seen_by_query(call.params, i), tile.chunk);
    if (chunk < chunks.first || chunk > chunks.last) continue;
    const int64_t query = tile.row_of(i) * call.params.heads + tile.head_of(i);
    const int64_t piece = query * kChunksMax + chunk - chunks.first;
    for (int32_t d = lane; d < dim; d += kWarp) call.pieces.values[piece * dim + d] = arrays.sums[i * columns + d];
    if (lane == 0) call.pieces.numbers[piece] = make_float2(arrays.largest[i], arrays.total[i]);
  }
}

/// Computes the factors that merge each query's sums over `chunk` with those of the chunks before. take is -1 if the
/// query sees nothing of the chunk.
template <class Call, class Tile>
__device__ void find_joints(const Call& call, const Tile& tile, const QueryArrays& arrays, int32_t chunk) {
  for (int32_t i = threadIdx.x; i < tile.queries(); i += kAttentionThreads) {
    const Chunks chunks = chunks_of(tile.seen_by_query(call.params, i), tile.chunk);
    arrays.take[i] = -1;
    if (chunk < chunks.first || chunk > chunks.last) continue;
    Joint joint{arrays.largest[i], 0, 1};
    float total = arrays.total[i];
    if (chunk > chunks.first) {
      joint = joint_of(arrays.joined_largest[i], arrays.largest[i]);
      total = joined(joint.keep, arrays.joined_total[i], joint.take, total);
    }
    arrays.joined_largest[i] = joint.largest;
    arrays.joined_total[i] = total;
    arrays.keep[i] = chunk > chunks.first ? joint.keep : -1;
    arrays.take[i] = joint.take;
    const float sink = call.params.sinks == nullptr ? -INFINITY : call.params.sinks[tile.head_of(i)];
    arrays.finish[i] = chunk == chunks.last ? finish_factor(joint.largest, total, sink) : 1.0f;
  }
}

/// Merges with the sums so far, which are in `out`.
template <class Call, class Tile>
__device__ void join_sums(const Call& call, const Tile& tile, const QueryArrays& arrays) {
  const int32_t dim = call.value_dim, columns = value_columns(dim), lane = threadIdx.x % kWarp;
  for (int32_t i = threadIdx.x / kWarp; i < tile.queries(); i += kAttentionWarps) {
    if (arrays.take[i] < 0) continue;
    float* out = call.out + (tile.row_of(i) * call.params.heads + tile.head_of(i)) * dim;
    for (int32_t d = lane; d < dim; d += kWarp) {
      float value = arrays.sums[i * columns + d];
      if (!(arrays.keep[i] < 0)) value = joined(arrays.keep[i], out[d], arrays.take[i], value);
      out[d] = __fmul_rn(value, arrays.finish[i]);
    }
  }
}

/// Ends a chunk; called after all threads have added its last page.
template <bool kSplit, class Call, class Tile>
__device__ void end_chunk(const Call& call, const Tile& tile, const QueryArrays& arrays, int32_t chunk) {
  __syncthreads();
  if constexpr (kSplit) {
    store_pieces(call, tile, arrays, chunk);
  } else {
    find_joints(call, tile, arrays, chunk);
    __syncthreads();
    join_sums(call, tile, arrays);
  }
  __syncthreads();
  clear_sums(arrays, call.value_dim);
}

}  // namespace cairn::kernels::cuda
