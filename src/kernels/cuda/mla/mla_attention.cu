/// MLA attention, where one row is key and value for all heads: a block attends with some heads of one query to the
/// rows that it reads (read_plan.h), tile by tile, chunk by chunk.
///
/// A tile is loaded to shared memory once: its rows are the keys, and their first elements the values. Chunks and their
/// merging are as in attention/paged_attention.cu, with the query's row numbers instead of positions.
///
/// Rows of float32 are multiplied as such, others on the tensor cores: up to 16 heads to a block, of which each warp
/// has the scores of eight rows and a quarter of the values' dimensions.
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/attention/merge.cuh"
#include "kernels/cuda/attention/mma_registers.cuh"
#include "kernels/cuda/attention/online_softmax.cuh"
#include "kernels/cuda/mla/latent_tile.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

struct Source {
  LatentPages pages;
  Rows rows;
  int32_t window = 0;
  const int32_t* chosen = nullptr;
  int32_t chosen_max = 0;  // 0: all rows are read

  CAIRN_HOST_DEVICE ReadRows read_by(int32_t position) const {
    return read_rows(position, pages.tokens_per_row, window, chosen_max);
  }
};

struct Call {
  RowAttentionParams params;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  Source sources[kRowSourcesMax];
  int32_t sources_count = 0;
  Rows rows;  // rows of the first source; all have the same positions
  int32_t tile_heads = 0;
  const float* q = nullptr;
  float* out = nullptr;
  Pieces pieces;

  CAIRN_HOST_DEVICE ReadList read_by(int32_t position) const {
    ReadList list;
    for (int32_t s = 0; s < static_cast<int32_t>(kRowSourcesMax); ++s) {
      if (s < sources_count) list.add(s, sources[s].read_by(position));
    }
    return list;
  }
  __device__ SeenPositions seen_by_row(int64_t row) const { return {0, read_by(rows.places[row].position).end}; }
};

// Maximum elements of values on the tensor cores.
constexpr int32_t kHalfValuesMax = 512;
// The type in which rows, queries and weights are multiplied.
enum class Numbers { kFloat32, kFloat16, kBfloat16 };
// Follows from the types of all sources, since it changes bits.
Numbers numbers_of(std::span<const LatentSource> sources) {
  const auto all = [&](auto of_type) {
    return std::ranges::all_of(sources, [&](const LatentSource& source) { return of_type(source.kv.type); });
  };
  if (all([](KvType type) { return type == KvType::kF16 || type == KvType::kQ8_0; })) return Numbers::kFloat16;
  return all([](KvType type) { return type == KvType::kBF16; }) ? Numbers::kBfloat16 : Numbers::kFloat32;
}

// Some heads of one row.
struct Tile {
  int64_t row = 0;
  int32_t head = 0;  // the first head
  int32_t heads = 0;
  int32_t chunk = 0;  // row numbers of `list` per chunk
  ReadList list;

  __device__ int32_t queries() const { return heads; }
  __device__ int64_t row_of(int32_t /*query*/) const { return row; }
  __device__ int32_t head_of(int32_t query) const { return head + query; }
  __device__ SeenPositions seen_by_query(const RowAttentionParams& /*params*/, int32_t /*query*/) const {
    return {0, list.end};
  }
};

// Shared memory of a block: arrays of queries, a tile, and the addresses of a tile's rows, for two tiles.
struct Shared {
  QueryArrays arrays;
  float* tile;  // or 16-bit numbers (attention/mma_page.cuh)
  const std::byte** rows;

  __device__ uint16_t* halves() const { return reinterpret_cast<uint16_t*>(tile); }
};
constexpr int64_t shared_bytes(int32_t queries, int32_t key_dim, int32_t value_dim, bool halves) {
  const int64_t row_bytes =
      halves ? half_stride(key_dim) * int64_t{sizeof(uint16_t)} : tile_stride(key_dim) * int64_t{sizeof(float)};
  return query_array_bytes(queries, key_dim, value_dim) +
         kLatentTile * (row_bytes + 2 * static_cast<int64_t>(sizeof(const std::byte*)));
}
__device__ Shared lay_out(const Call& call, int32_t queries, bool halves) {
  Shared shared;
  auto* next = reinterpret_cast<float*>(shared_memory());
  shared.arrays = lay_out_queries(queries, call.key_dim, call.value_dim, next);
  shared.tile = next;
  const int32_t floats_of_row = halves ? half_stride(call.key_dim) / 2 : tile_stride(call.key_dim);
  shared.rows = reinterpret_cast<const std::byte**>(next + kLatentTile * floats_of_row);
  return shared;
}

// Address of the row of the thread's lane in the tile that begins at `number`. Rows beyond its end repeat its last one.
__device__ const std::byte* find_row(const Call& call, const Tile& tile, int32_t number) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const ReadTile read = tile_at(tile.list, call.sources_count, number);
  const Source& source = call.sources[read.source];
  const int32_t i = read.first + min(lane, read.count - 1);
  const int32_t row = source.chosen_max == 0 ? i : source.chosen[tile.row * source.chosen_max + i];
  const int32_t* pages = source.rows.pages + source.rows.places[tile.row].pages_begin;
  return source.pages.row(pages, row);
}

// Adds a tile to the block's heads, in float32.
class FloatSums {
 public:
  __device__ FloatSums(const Call& call, const Tile& tile, const Shared& shared)
      : call_(call), tile_(tile), shared_(shared) {
    begin_tile(call, tile, shared.arrays);
  }
  __device__ void decode(KvType type, const std::byte* const* rows, int32_t /*count*/) const {
    decode_rows(type, rows, call_.key_dim, shared_.tile);
  }
  __device__ void score(const ReadTile& read, int32_t number) const {
    score_page(shared_.arrays, shared_.tile, key_columns(call_.key_dim));
    __syncthreads();
    const ScoreRule rule{call_.params.scale, 0, 0, 0, {number, number + read.count}};
    for (int32_t i = threadIdx.x / kWarp; i < tile_.heads; i += kAttentionWarps)
      weigh_query(shared_.arrays, i, rule, number);
    __syncthreads();
  }
  __device__ void add(const ReadTile& read) const {
    const int32_t stride = tile_stride(call_.key_dim), columns = value_columns(call_.value_dim);
    add_page(shared_.arrays, shared_.tile, stride, columns, 0, read.count, true);
  }
  __device__ void end_chunk() const {}

 private:
  const Call& call_;
  const Tile& tile_;
  const Shared& shared_;
};

// Adds a tile to the block's heads, on the tensor cores.
template <bool kBfloat>
class HalfSums {
 public:
  __device__ HalfSums(const Call& call, const Tile& tile, const Shared& shared)
      : call_(call), shared_(shared), sums_(begun(call, tile, shared), 0, own_column(), [&](int32_t query) {
          const int32_t own = min(query, shared.arrays.count - 1);
          return ScoreRule{__fmul_rn(call.params.scale, shared.arrays.query_scale[own]), 0, 0, 0, {}};
        }) {}
  __device__ void decode(KvType type, const std::byte* const* rows, int32_t count) const {
    const auto row_at = [rows](int32_t i) { return rows[i]; };
    if constexpr (kBfloat) {
      decode_page_halves<KvType::kBF16>(row_at, count, call_.key_dim, shared_.halves());
    } else if (type == KvType::kF16) {
      decode_page_halves<KvType::kF16>(row_at, count, call_.key_dim, shared_.halves());
    } else {
      decode_page_halves<KvType::kQ8_0>(row_at, count, call_.key_dim, shared_.halves());
    }
  }
  __device__ void score(const ReadTile& read, int32_t number) {
    score_page_halves<kBfloat>(shared_.arrays, shared_.halves(), call_.key_dim);
    __syncthreads();
    sums_.take_scores(shared_.arrays, {number, number + read.count}, number);
  }
  __device__ void add(const ReadTile& /*read*/) {
    if (own_column() < call_.value_dim) sums_.add_page(shared_.halves(), half_stride(call_.key_dim), call_.value_dim);
  }
  __device__ void end_chunk() {
    sums_.store(shared_.arrays, call_.value_dim);
    sums_.begin();
  }

 private:
  static constexpr int kTiles = kHalfValuesMax / 8 / kAttentionWarps;
  __device__ static int32_t own_column() { return static_cast<int32_t>(threadIdx.x) / kWarp * 8 * kTiles; }
  __device__ static const QueryArrays& begun(const Call& call, const Tile& tile, const Shared& shared) {
    for (int32_t i = threadIdx.x / kWarp; i < shared.arrays.count; i += kAttentionWarps) {
      const float* q = call.q + (tile.row_of(i) * call.params.heads + tile.head_of(i)) * call.key_dim;
      begin_query_halves<kBfloat>(shared.arrays, i, i < tile.heads ? q : nullptr, call.key_dim);
    }
    begin_sums(shared.arrays, call.value_dim);
    __syncthreads();
    return shared.arrays;
  }

  const Call& call_;
  const Shared& shared_;
  WarpSums<kBfloat, kTiles> sums_;
};

// Processes row numbers [begin, end) of the list, in whole tiles, and the chunks to which they belong.
template <bool kSplit, class Sums>
__device__ void attend_tiles(const Call& call, const Tile& tile, const Shared& shared, Sums& sums, int32_t begin,
                             int32_t end) {
  const bool first_warp = threadIdx.x < kWarp;
  const std::byte** rows = shared.rows;
  const std::byte** next_rows = shared.rows + kLatentTile;
  if (first_warp) rows[threadIdx.x] = find_row(call, tile, begin);
  for (int32_t number = begin; number < end; number += kLatentTile) {
    const ReadTile read = tile_at(tile.list, call.sources_count, number);
    __syncthreads();
    // The addresses of the next tile's rows are loaded while this one is decoded.
    const std::byte* next = nullptr;
    if (first_warp && number + kLatentTile < end) next = find_row(call, tile, number + kLatentTile);
    sums.decode(call.sources[read.source].pages.type, rows, read.count);
    if (first_warp) next_rows[threadIdx.x] = next;
    __syncthreads();
    sums.score(read, number);
    sums.add(read);
    if (number + kLatentTile >= end || (number + kLatentTile) % tile.chunk == 0) {
      sums.end_chunk();
      end_chunk<kSplit>(call, tile, shared.arrays, number / tile.chunk);
    }
    const std::byte** were_read = rows;
    rows = next_rows;
    next_rows = were_read;
  }
}

// Blocks along x are rows, along y tiles of heads, along z chunks.
template <Numbers kNumbers, bool kSplit>
__global__ void __launch_bounds__(kAttentionThreads) attend_kernel(__grid_constant__ const Call call) {
  using Sums = std::conditional_t<kNumbers == Numbers::kFloat32, FloatSums, HalfSums<kNumbers == Numbers::kBfloat16>>;
  Tile tile;
  // Rows at the end of a prompt read the most rows, so they start first.
  tile.row = call.rows.count - 1 - static_cast<int32_t>(blockIdx.x);
  tile.head = static_cast<int32_t>(blockIdx.y) * call.tile_heads;
  tile.heads = min(call.tile_heads, call.params.heads - tile.head);
  tile.list = call.read_by(call.rows.places[tile.row].position);
  tile.chunk = chunk_positions(tile.list.end);
  const int32_t begin = kSplit ? static_cast<int32_t>(blockIdx.z) * tile.chunk : 0;
  const int32_t end = kSplit ? min(begin + tile.chunk, tile.list.end) : tile.list.end;
  if (begin >= end) return;
  const Shared shared = lay_out(call, round_up(call.tile_heads, 4), kNumbers != Numbers::kFloat32);
  Sums sums(call, tile, shared);
  attend_tiles<kSplit>(call, tile, shared, sums, begin, end);
}

// The heads of a tile, as many as fit: with more heads fewer bytes are read, but two blocks per multiprocessor hide
// latency better than one. Each block takes 1 KiB in addition to what it requests.
int32_t heads_of_tile(int32_t heads, int32_t key_dim, int32_t value_dim, bool halves, int64_t bytes_max) {
  int32_t tile_heads = 1;
  for (const int64_t bytes : {(bytes_max + 1024) / 2 - 1024, bytes_max}) {
    for (const int32_t queries : {32, 16, 8, 4}) {
      if (halves && queries > 16) continue;
      const int32_t tiles = (heads + queries - 1) / queries;
      tile_heads = (heads + tiles - 1) / tiles;
      if (shared_bytes(round_up(tile_heads, 4), key_dim, value_dim, halves) <= bytes) return tile_heads;
    }
  }
  return tile_heads;
}

template <Numbers kNumbers>
void start(LaunchQueue& stream, const Call& call, bool split, dim3 grid, int64_t bytes, int device) {
  if (split) return launch_large<attend_kernel<kNumbers, true>>(device, grid, kAttentionThreads, bytes, stream, call);
  launch_large<attend_kernel<kNumbers, false>>(device, grid, kAttentionThreads, bytes, stream, call);
}

}  // namespace

int64_t attend_rows_scratch_bytes(int64_t rows, int32_t heads, int32_t value_dim) {
  return Pieces::bytes(split_queries(rows, heads), value_dim);
}

void attend_rows(LaunchQueue& stream, const RowAttentionParams& params, std::span<const LatentSource> sources,
                 const float* q, void* scratch, float* out) {
  CAIRN_DCHECK(params.scale > 0 && !sources.empty() && sources.size() <= kRowSourcesMax);
  Call call;
  call.params = params;
  call.key_dim = sources[0].kv.key_dim;
  call.value_dim = params.value_dim;
  call.rows = sources[0].rows;
  CAIRN_DCHECK(call.value_dim <= call.key_dim);
  if (call.rows.count == 0) return;
  for (const LatentSource& source : sources) {
    CAIRN_DCHECK(source.kv.kv_heads == 1 && source.kv.key_dim == call.key_dim && source.kv.type != KvType::kI16);
    CAIRN_DCHECK(source.rows.count == call.rows.count);
    const int32_t chosen_max = source.chosen == nullptr ? 0 : source.chosen_max;
    call.sources[call.sources_count++] = {LatentPages(source.kv), source.rows, source.window, source.chosen,
                                          chosen_max};
  }
  int device = 0;
  cudaGetDevice(&device);
  const int64_t bytes_max = shared_bytes_max(device);
  const Numbers numbers = call.value_dim <= kHalfValuesMax ? numbers_of(sources) : Numbers::kFloat32;
  const bool halves = numbers != Numbers::kFloat32;
  call.tile_heads = heads_of_tile(params.heads, call.key_dim, call.value_dim, halves, bytes_max);
  const int64_t bytes = shared_bytes(round_up(call.tile_heads, 4), call.key_dim, call.value_dim, halves);
  CAIRN_CHECK(bytes <= bytes_max);
  call.q = q;
  call.out = out;
  const int64_t queries = int64_t{call.rows.count} * params.heads;
  // No row reads more than the one with the last position.
  const int32_t chunks = chunks_most(call.read_by(call.rows.positions_max - 1).end, false);
  const bool split = chunks > 1 && queries <= split_queries(call.rows.count, params.heads);
  dim3 grid(static_cast<unsigned>(call.rows.count), blocks_of(params.heads, call.tile_heads, kGridMax), 1);
  if (split) {
    call.pieces = Pieces::at(scratch, queries);
    grid.z = static_cast<unsigned>(chunks);
  }
  if (numbers == Numbers::kFloat16) {
    start<Numbers::kFloat16>(stream, call, split, grid, bytes, device);
  } else if (numbers == Numbers::kBfloat16) {
    start<Numbers::kBfloat16>(stream, call, split, grid, bytes, device);
  } else {
    start<Numbers::kFloat32>(stream, call, split, grid, bytes, device);
  }
  if (split) merge_pieces(stream, call);
}

}  // namespace cairn::kernels::cuda
