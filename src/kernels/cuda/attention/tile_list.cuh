/// The tiles of a call with many rows, numbered on the device, so that a grid has hardly more blocks than there are
/// tiles: thousands of blocks that only end take longer than all others in a prompt's first steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention/tile.cuh"

namespace cairn::kernels::cuda {

/// Maximum number of tiles per KV head and tile of heads. Slices of one row have one each.
inline int32_t tiles_most(const AttentionCall& call) {
  constexpr int32_t kRowsOfChunkSize = (kChunksMax - 1) * kPageTokens;
  const int32_t slices = call.rows.slices, others = call.rows.count - slices;
  const int32_t tiles = others / call.tiling.tile_rows + slices;
  if (chunk_positions(positions_seen(call.params, call.rows)) == kChunkLeast) return tiles;
  // Rows of a symmetric window see more and more, and less and less again at the end.
  const int32_t directions = call.params.causal ? 1 : 2;
  const int32_t changes = others / kRowsOfChunkSize + directions * std::min(slices, others);
  if (!call.params.chunked) return tiles + changes;
  return tiles + changes + others / call.params.window + std::min(slices, others);  // rows see little again
}

/// Words of the list in shared memory, with a bit for each row.
CAIRN_HOST_DEVICE constexpr int32_t tile_list_words(int32_t rows) { return (rows + 31) / 32; }

/// Whether a tile begins at a row: at every tile_rows-th row of a slice, as far as it is in the call, and where the
/// size of chunks changes.
__device__ inline bool begins_tile(const AttentionCall& call, const TokenPlace& place, int32_t row) {
  const auto in_call = static_cast<uint32_t>(min(place.position - place.slice_position, row));
  if (in_call % static_cast<uint32_t>(call.tiling.tile_rows) == 0) return true;
  if (call.rows.positions_max <= (kChunksMax - 1) * kChunkLeast) return false;
  const auto chunk_of = [&](int32_t number) {
    const SeenPositions seen = seen_by(call.params, place, number);
    return chunk_positions(seen.end - seen.begin);
  };
  return chunk_of(0) != chunk_of(-1);
}

/// Writes the list; called by all kThreads threads of a block. There is a barrier at the end.
template <int kThreads>
__device__ void list_tiles(const AttentionCall& call, uint32_t* list) {
  constexpr int kAhead = 9;  // rows of a thread whose places are loaded at once
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t first = 0; first < call.rows.count; first += kAhead * kThreads) {
    TokenPlace places[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      places[i] = call.rows.places[min(first + i * kThreads + thread, call.rows.count - 1)];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t row = first + i * kThreads + thread;
      const bool begins = row < call.rows.count && begins_tile(call, places[i], row);
      const uint32_t word = __ballot_sync(kAllLanes, begins);
      if (thread % kWarp == 0 && row < call.rows.count) list[row / 32] = word;
    }
  }
  __syncthreads();
}

/// Rows [begin, end) of the tile `number` of the list, counted from the last one; empty if there are fewer. Rows at the
/// end of a prompt see the most positions, so they start first.
struct TileRows {
  int32_t begin = 0;
  int32_t end = 0;
};
__device__ inline TileRows rows_of_tile(const uint32_t* list, int32_t rows, int32_t number) {
  const int32_t words = tile_list_words(rows);
  int32_t word = words - 1, left = number;
  for (; word >= 0; --word) {
    const int32_t count = __popc(list[word]);
    if (left < count) break;
    left -= count;
  }
  if (word < 0) return {};
  uint32_t bits = list[word];
  for (int32_t lower = __popc(bits) - 1 - left; lower > 0; --lower) bits &= bits - 1;
  const int32_t begin = 32 * word + __ffs(static_cast<int>(bits)) - 1;
  bits &= bits - 1;
  while (bits == 0 && ++word < words) bits = list[word];
  return {begin, bits == 0 ? rows : 32 * word + __ffs(static_cast<int>(bits)) - 1};
}

/// The tile of rows with a tile of heads.
__device__ inline Tile tile_at(const AttentionCall& call, TileRows rows, int32_t head_tile) {
  const AttentionTiling& tiling = call.tiling;
  const int32_t in_group = head_tile % tiling.head_tiles * tiling.tile_heads;
  Tile tile;
  tile.row = rows.begin;
  tile.rows = rows.end - rows.begin;
  tile.kv_head = head_tile / tiling.head_tiles;
  tile.head = tile.kv_head * tiling.group + in_group;
  tile.heads = min(tiling.tile_heads, tiling.group - in_group);
  tile.place = call.rows.places[rows.begin];
  tile.pages = call.rows.pages + tile.place.pages_begin;
  const SeenPositions seen = tile.seen_by_row(call.params, 0);
  tile.chunk = chunk_positions(seen.end - seen.begin);
  return tile;
}

}  // namespace cairn::kernels::cuda
