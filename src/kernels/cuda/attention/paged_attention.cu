/// Attention over paged keys and values: a block attends to a tile of rows and heads (AttentionTiling), page by page,
/// chunk by chunk (split_plan.h). Here scores and sums are in shared memory, for keys and values in float32 and for
/// values with many dimensions; for others see few_queries.cu and many_queries.cu.
///
/// This kernel is for many rows of a sequence; with few, that of few_queries.cu is faster.
///
/// With many rows, a block goes through all chunks of its rows and merges them as it goes. With few rows, each chunk
/// has a block of its own, which writes its sums to scratch memory for merge_pieces. Both do the same additions.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/attention/call.cuh"
#include "kernels/cuda/attention/few_queries.h"
#include "kernels/cuda/attention/many_queries.h"
#include "kernels/cuda/attention/merge.cuh"
#include "kernels/cuda/attention/mma_page.cuh"
#include "kernels/cuda/attention/online_softmax.cuh"
#include "kernels/cuda/attention/page.cuh"
#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

// Shared memory of a block: arrays of queries, a page in float32 or float16, and, if staged, a page of keys and one of
// values as they are stored.
struct Shared {
  QueryArrays arrays;
  float* tile;
  std::byte* keys;
  std::byte* values;
};
CAIRN_HOST_DEVICE constexpr int64_t floats_of_tile(int32_t key_dim, int32_t value_dim, bool halves) {
  const int32_t dim = key_dim > value_dim ? key_dim : value_dim;
  return int64_t{kPageTokens} * (halves ? half_stride(dim) / 2 : tile_stride(dim));
}
constexpr int64_t shared_bytes(int32_t queries, const KvView& kv, bool staged) {
  const int64_t tile =
      floats_of_tile(kv.key_dim, kv.value_dim, in_halves(kv.type)) * static_cast<int64_t>(sizeof(float));
  const int64_t page = kPageTokens * (kv_row_bytes(kv.type, kv.key_dim) + kv_row_bytes(kv.type, kv.value_dim));
  return query_array_bytes(queries, kv.key_dim, kv.value_dim) + tile + (staged ? page : 0);
}

template <KvType kType>
__device__ Shared lay_out(const AttentionCall& call, int32_t queries) {
  Shared shared;
  auto* next = reinterpret_cast<float*>(shared_memory());
  shared.arrays = lay_out_queries(queries, call.key_dim, call.value_dim, next);
  shared.tile = next;
  shared.keys = reinterpret_cast<std::byte*>(next + floats_of_tile(call.key_dim, call.value_dim, in_halves(kType)));
  shared.values = shared.keys + kPageTokens * call.pages.key_row_bytes;
  return shared;
}

template <KvType kType>
__device__ void begin(const AttentionCall& call, const Tile& tile, const QueryArrays& arrays) {
  if constexpr (in_halves(kType)) {
    for (int32_t i = threadIdx.x / kWarp; i < arrays.count; i += kAttentionWarps) {
      const float* q = call.q + (tile.row_of(i) * call.params.heads + tile.head_of(i)) * call.key_dim;
      begin_query_halves<kBfloat<kType>>(arrays, i, i < tile.queries() ? q : nullptr, call.key_dim);
    }
    begin_sums(arrays, call.value_dim);
  } else {
    begin_tile(call, tile, arrays);
  }
}

// A page whose rows are consecutive; the first `count` of them exist.
template <KvType kType>
__device__ void decode(const std::byte* rows, int64_t row_bytes, int32_t count, int32_t dim, int32_t columns,
                       float* tile) {
  const auto row_at = [=](int32_t row) { return rows + row * row_bytes; };
  if constexpr (in_halves(kType)) {
    decode_page_halves<kType>(row_at, count, dim, reinterpret_cast<uint16_t*>(tile));
  } else {
    decode_page<kType>(row_at, dim, columns, tile);
  }
}

template <KvType kType>
__device__ ScoreRule rule_of(const AttentionCall& call, const Tile& tile, const QueryArrays& arrays, int32_t query) {
  const float scale = in_halves(kType) ? arrays.query_scale[query] : 1.0f;
  return cuda::rule_of<kType>(call, tile, scale, tile.head_of(query), query / tile.heads);
}

template <KvType kType>
__device__ void weigh_page(const AttentionCall& call, const Tile& tile, const QueryArrays& arrays, int32_t begin) {
  for (int32_t i = threadIdx.x / kWarp; i < tile.queries(); i += kAttentionWarps)
    weigh_query(arrays, i, rule_of<kType>(call, tile, arrays, i), begin);
}

// Address of a page of the tile's sequence: in shared memory if staged, or in place.
template <bool kStaged>
__device__ const std::byte* fetch(const std::byte* from, int64_t row_bytes, std::byte* to) {
  if constexpr (!kStaged) return from;
  copy_async<kAttentionThreads>(from, kPageTokens * row_bytes, to);
  return to;
}

// Adds a page to the tile's queries, with scores and sums in shared memory.
template <KvType kType>
struct SharedSums {
  const AttentionCall& call;
  const Tile& tile;
  const Shared& shared;

  __device__ void score_page(int32_t begin) {
    if constexpr (in_halves(kType)) {
      score_page_halves<kBfloat<kType>>(shared.arrays, reinterpret_cast<const uint16_t*>(shared.tile), call.key_dim);
    } else {
      cuda::score_page(shared.arrays, shared.tile, key_columns(call.key_dim));
    }
    __syncthreads();
    weigh_page<kType>(call, tile, shared.arrays, begin);
  }
  /// `there`: number of rows of the page that have been written.
  __device__ void add_page(int32_t begin, int32_t there) {
    if constexpr (in_halves(kType)) {
      add_page_halves<kBfloat<kType>>(shared.arrays, reinterpret_cast<const uint16_t*>(shared.tile), call.value_dim);
    } else {
      const SeenPositions first = tile.seen_by_row(call.params, 0), last = tile.seen_by_row(call.params, tile.rows - 1);
      const bool all = begin >= last.begin && begin + kPageTokens <= first.end;
      const int32_t columns = value_columns(call.value_dim);
      cuda::add_page(shared.arrays, shared.tile, tile_stride(columns), columns, max(first.begin - begin, 0), there,
                     all);
    }
  }
};

// Processes pages [begin, end). A page's values are copied while its keys are used, and the next page's keys while its
// values are.
template <KvType kType, bool kStaged, bool kSplit>
__device__ void attend_pages(const AttentionCall& call, const Tile& tile, const Shared& shared, int32_t begin,
                             int32_t end) {
  const KvPages& pages = call.pages;
  SharedSums<kType> sums{call, tile, shared};
  const int32_t seen_end = tile.seen_by_row(call.params, tile.rows - 1).end;
  const auto keys_of = [&](int32_t page) {
    return fetch<kStaged>(pages.keys(tile.pages[page], tile.kv_head), pages.key_row_bytes, shared.keys);
  };
  const auto values_of = [&](int32_t page) {
    return fetch<kStaged>(pages.values(tile.pages[page], tile.kv_head), pages.value_row_bytes, shared.values);
  };
  const std::byte* keys = keys_of(begin);
  end_copies();
  const std::byte* values = values_of(begin);
  end_copies();
  for (int32_t page = begin; page < end; ++page) {
    const int32_t position = page * kPageTokens;
    wait_for_copies<1>();
    __syncthreads();
    decode<kType>(keys, pages.key_row_bytes, kPageTokens, call.key_dim, key_columns(call.key_dim), shared.tile);
    __syncthreads();
    if (page + 1 < end) keys = keys_of(page + 1);
    end_copies();
    sums.score_page(position);
    wait_for_copies<1>();
    __syncthreads();
    // Rows that were never written may hold anything, and 0 times infinity is not 0.
    const int32_t there = min(seen_end - position, kPageTokens);
    decode<kType>(values, pages.value_row_bytes, there, call.value_dim, value_columns(call.value_dim), shared.tile);
    __syncthreads();
    if (page + 1 < end) values = values_of(page + 1);
    end_copies();
    sums.add_page(position, there);
    if (page + 1 == end || (position + kPageTokens) % tile.chunk == 0) {
      end_chunk<kSplit>(call, tile, shared.arrays, position / tile.chunk);
    }
  }
  wait_for_copies<0>();
}

template <KvType kType, bool kStaged, bool kSplit>
__device__ void attend_tile(const AttentionCall& call, const Tile& tile) {
  const int32_t page_begin = tile.seen_by_row(call.params, 0).begin / kPageTokens;
  const int32_t page_end = (tile.seen_by_row(call.params, tile.rows - 1).end - 1) / kPageTokens + 1;
  const int32_t chunk_pages = tile.chunk / kPageTokens;
  const Shared shared = lay_out<kType>(call, round_up(tile.queries(), 4));
  if constexpr (kSplit) {
    const auto step = static_cast<int32_t>(gridDim.z);
    const int32_t chunk_end = (page_end - 1) / chunk_pages + 1;
    int32_t chunk = page_begin / chunk_pages + static_cast<int32_t>(blockIdx.z);
    if (chunk >= chunk_end) return;
    __syncthreads();  // the tile before is finished
    begin<kType>(call, tile, shared.arrays);
    __syncthreads();
    for (; chunk < chunk_end; chunk += step) {
      attend_pages<kType, kStaged, true>(call, tile, shared, max(page_begin, chunk * chunk_pages),
                                         min(page_end, (chunk + 1) * chunk_pages));
    }
  } else {
    __syncthreads();
    begin<kType>(call, tile, shared.arrays);
    __syncthreads();
    attend_pages<kType, kStaged, false>(call, tile, shared, page_begin, page_end);
  }
}

// Blocks along z are chunks.
template <KvType kType, bool kStaged, bool kSplit>
__global__ void __launch_bounds__(kAttentionThreads) attention_kernel(AttentionCall call) {
  for_tiles_of_block(call, [&](const Tile& tile) { attend_tile<kType, kStaged, kSplit>(call, tile); });
}

AttentionTiling tiling_of(int32_t group, const KvView& kv, int32_t rows, int64_t bytes_max) {
  AttentionTiling tiling;
  tiling.group = group;
  // With more queries per block fewer bytes are read, but two blocks per multiprocessor hide latency better than one.
  // Each block takes 1 KiB in addition to what it requests.
  for (const int64_t bytes : {(bytes_max + 1024) / 2 - 1024, bytes_max}) {
    for (const int32_t queries : {64, 32, 16, 8, 4}) {
      if (queries > 32 && !in_halves(kv.type)) continue;
      choose_tiles(queries, rows, tiling);
      for (const bool staged : {true, false}) {
        tiling.staged = staged && in_halves(kv.type);
        tiling.shared_bytes = shared_bytes(tiling.queries, kv, tiling.staged);
        if (tiling.shared_bytes <= bytes) return tiling;
        // Staging is turned off only if nothing else fits.
        if (queries > 4 || bytes < bytes_max) break;
      }
    }
  }
  return tiling;
}

template <KvType kType, bool kStaged, bool kSplit>
void start(LaunchQueue& stream, const AttentionCall& call, dim3 grid, int device) {
  launch_large<attention_kernel<kType, kStaged, kSplit>>(device, grid, kAttentionThreads, call.tiling.shared_bytes,
                                                         stream, call);
}

template <KvType kType, bool kSplit>
void start_halves(LaunchQueue& stream, const AttentionCall& call, dim3 grid, int device) {
  if (call.tiling.staged) return start<kType, true, kSplit>(stream, call, grid, device);
  start<kType, false, kSplit>(stream, call, grid, device);
}

template <bool kSplit>
void start(LaunchQueue& stream, const AttentionCall& call, KvType type, dim3 grid, int device) {
  switch (type) {
    case KvType::kF32:
      return start<KvType::kF32, false, kSplit>(stream, call, grid, device);
    case KvType::kF16:
      return start_halves<KvType::kF16, kSplit>(stream, call, grid, device);
    case KvType::kBF16:
      return start_halves<KvType::kBF16, kSplit>(stream, call, grid, device);
    case KvType::kQ8_0:
      return start_halves<KvType::kQ8_0, kSplit>(stream, call, grid, device);
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  CAIRN_CHECK(false && "keys and values are not in pairs here");
}

void start_with_shared_sums(LaunchQueue& stream, AttentionCall call, const KvView& kv, int32_t chunks, int device) {
  const int64_t bytes_max = shared_bytes_max(device);
  call.tiling = tiling_of(call.tiling.group, kv, call.rows.count, bytes_max);
  CAIRN_CHECK(call.tiling.shared_bytes <= bytes_max);
  const dim3 grid = grid_of(call, kv.kv_heads, chunks);
  if (chunks == 1) return start<false>(stream, call, kv.type, grid, device);
  start<true>(stream, call, kv.type, grid, device);
}

}  // namespace

int64_t attention_scratch_bytes(int64_t rows, int32_t heads, int32_t value_dim) {
  return Pieces::bytes(split_queries(rows, heads), value_dim);
}

void attention(LaunchQueue& stream, const AttentionParams& params, const KvView& kv, const Rows& rows, const float* q,
               void* scratch, float* out) {
  CAIRN_DCHECK(params.heads % kv.kv_heads == 0 && kv.tokens_per_row == 1);
  CAIRN_DCHECK(params.slopes == nullptr || params.soft_cap == 0);
  if (rows.count == 0) return;
  int device = 0;
  cudaGetDevice(&device);
  AttentionCall call{params, KvPages(kv), kv.key_dim, kv.value_dim, rows, {}, q, out, {}};
  call.tiling.group = params.heads / kv.kv_heads;
  const int64_t queries = int64_t{rows.count} * params.heads;
  const int32_t chunks = chunks_most(positions_seen(params, rows), params.window > 0);
  const bool split = chunks > 1 && queries <= split_queries(rows.count, params.heads);
  if (split) call.pieces = Pieces::at(scratch, queries);
  const int32_t block_chunks = split ? chunks : 1;
  if (!start_few_queries(stream, call, kv, block_chunks, device) &&
      !start_many_queries(stream, call, kv, block_chunks, device)) {
    start_with_shared_sums(stream, call, kv, block_chunks, device);
  }
  if (split) merge_pieces(stream, call);
}

}  // namespace cairn::kernels::cuda
