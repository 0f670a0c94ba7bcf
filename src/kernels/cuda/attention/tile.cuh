/// The tiles of queries that blocks of an attention call have, and what follows from the types and sizes of a call for
/// all of its kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/page.cuh"

namespace cairn::kernels::cuda {

/// Rows of a slice with chunks of one size, and heads that read the same KV head.
struct Tile {
  int64_t row = 0;  ///< the first row
  int32_t rows = 0;
  int32_t head = 0;  ///< the first query head
  int32_t heads = 0;
  int32_t kv_head = 0;
  int32_t chunk = 0;  ///< positions of a chunk
  TokenPlace place;   ///< place of the first row
  const int32_t* pages = nullptr;

  __device__ int32_t queries() const { return rows * heads; }
  __device__ int64_t row_of(int32_t query) const { return row + query / heads; }
  __device__ int32_t head_of(int32_t query) const { return head + query % heads; }
  __device__ SeenPositions seen_by_row(const AttentionParams& params, int32_t number) const {
    return seen_by(params, place, number);
  }
  __device__ SeenPositions seen_by_query(const AttentionParams& params, int32_t query) const {
    return seen_by_row(params, query / heads);
  }
};

/// Calls attend(tile) for the tiles of the block. Blocks along x are rows, of which the first of every tile does the
/// work; along y tiles of heads.
template <class Attend>
__device__ __forceinline__ void for_tiles_of_block(const AttentionCall& call, Attend attend) {
  const AttentionTiling& tiling = call.tiling;
  // Rows at the end of a prompt see the most positions, so they start first.
  const auto row = call.rows.count - 1 - static_cast<int32_t>(blockIdx.x);
  const TokenPlace place = call.rows.places[row];
  // Row number in its slice, of which a call may have a part.
  const int32_t number = place.position - place.slice_position;
  const int32_t in_tile = number % tiling.tile_rows;
  if (in_tile != 0 && row != 0) return;
  const int32_t rows = min(min(tiling.tile_rows - in_tile, place.slice_rows - number), call.rows.count - row);
  const auto head_tile = static_cast<int32_t>(blockIdx.y);
  const int32_t kv_head = head_tile / tiling.head_tiles;
  const int32_t in_group = head_tile % tiling.head_tiles * tiling.tile_heads;

  for (int32_t begin = 0, end = 0; begin < rows; begin = end) {
    Tile tile;
    tile.head = kv_head * tiling.group + in_group;
    tile.heads = min(tiling.tile_heads, tiling.group - in_group);
    tile.kv_head = kv_head;
    tile.place = place;
    tile.place.position += begin;
    tile.pages = call.rows.pages + place.pages_begin;
    tile.row = row + begin;
    const auto chunk_of = [&](int32_t i) {
      const SeenPositions seen = tile.seen_by_row(call.params, i - begin);
      return chunk_positions(seen.end - seen.begin);
    };
    tile.chunk = chunk_of(begin);
    end = begin + 1;
    while (end < rows && chunk_of(end) == tile.chunk) ++end;
    tile.rows = end - begin;
    attend(tile);
  }
}

/// Chooses the tiles of a call with at most `queries` queries to a tile, and `rows` rows.
inline void choose_tiles(int32_t queries, int32_t rows, AttentionTiling& tiling) {
  tiling.head_tiles = (tiling.group + queries - 1) / queries;
  tiling.tile_heads = (tiling.group + tiling.head_tiles - 1) / tiling.head_tiles;
  tiling.tile_rows = std::max(1, std::min(rows, queries / tiling.tile_heads));
  tiling.queries = round_up(tiling.tile_rows * tiling.tile_heads, 4);
}

/// Maximum number of positions that a row of the call sees.
inline int32_t positions_seen(const AttentionParams& params, const Rows& rows) {
  const int32_t window = params.causal ? params.window : params.window / 2 * 2 + 1;
  return params.window > 0 ? std::min(window, rows.positions_max) : rows.positions_max;
}
/// The grid of a call whose tiles are chosen.
inline dim3 grid_of(const AttentionCall& call, int32_t kv_heads, int32_t chunks) {
  CAIRN_DCHECK(kv_heads * call.tiling.head_tiles <= kGridMax);
  return {static_cast<unsigned>(call.rows.count), static_cast<unsigned>(kv_heads * call.tiling.head_tiles),
          static_cast<unsigned>(chunks)};
}

/// Whether values are multiplied as 16-bit numbers on the tensor cores; only float32 is not.
CAIRN_HOST_DEVICE constexpr bool in_halves(KvType type) { return type != KvType::kF32; }
template <KvType kType>
inline constexpr bool kBfloat = kType == KvType::kBF16;
/// Number of groups of eight values whose sums are in registers, or 0. It follows from the dimensions alone, since it
/// changes bits.
constexpr int value_tiles(KvType type, int32_t value_dim) {
  if (!in_halves(type) || value_dim > 256) return 0;
  return value_dim > 128 ? 32 : 16;
}

/// The rule of a query of the tile's row number `row`; `query_scale` is the factor of a 16-bit query (QueryArrays).
template <KvType kType>
__device__ ScoreRule rule_of(const AttentionCall& call, const Tile& tile, float query_scale, int32_t head,
                             int32_t row) {
  const float slope = call.params.slopes == nullptr ? 0.0f : call.params.slopes[head];
  const float scale = in_halves(kType) ? __fmul_rn(call.params.scale, query_scale) : call.params.scale;
  return {scale, call.params.soft_cap, slope, tile.place.position + row, tile.seen_by_row(call.params, row)};
}
/// The rule of one of the tile's queries; `query_scale` is 1 for float32.
__device__ inline ScoreRule rule_of(const AttentionCall& call, const Tile& tile, float query_scale, int32_t query) {
  return rule_of<KvType::kF16>(call, tile, query_scale, tile.head_of(query), query / tile.heads);
}

}  // namespace cairn::kernels::cuda
