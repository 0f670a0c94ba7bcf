/// Lightning indexer: selects the rows that a query reads, by computing the scores of all rows that it sees and taking
/// the largest.
///
/// A score is the sum over heads of the head's weight times relu(its product), with every 32nd head in a lane in
/// ascending order, and the lanes' sums added as a tree. Of equal scores the lower row number comes first, so the
/// selected set is unique; here it is found by radix selection: the bits of the last selected score, from the highest
/// on.
///
/// Where a query has candidates (CandidateBlocks), only the rows of the blocks are scored, and their scores follow each
/// other. Blocks are found in the same way as rows, once these are chosen: their scores take the place of the rows'.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/mla/latent_tile.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"
#include "kernels/cuda/sampling/sortable_float.cuh"

namespace cairn::kernels::cuda {
namespace {

// Scores held at the same time, unless one query has more: 16 queries with 64k rows.
constexpr int64_t kScoresAtOnce = int64_t{1} << 20;
// Shared memory per block that every GPU has.
constexpr int64_t kSharedBytesMax = int64_t{96} << 10;
// Number of blocks that keeps a GPU busy; beyond it each block has more tiles for the queries that it reads.
constexpr int64_t kBlocksWanted = 512;
constexpr int32_t kTilesOfBlockMax = 8;

constexpr int kChooseThreads = 512;
constexpr int kChooseWarps = kChooseThreads / kWarp;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;

struct Call {
  LatentPages keys;
  int32_t key_dim = 0;
  int32_t heads = 0;
  int32_t most = 0;
  CandidateBlocks candidates;
  Rows rows;
  int32_t first = 0;    // first of the rows for whose scores there is room
  int32_t longest = 0;  // maximum rows that a query sees: the stride of `scores`
  int32_t tiles_of_block = 1;
  const float* q = nullptr;
  const float* weights = nullptr;
  float* scores = nullptr;
  int32_t* chosen = nullptr;

  __device__ int32_t seen_by(int32_t row) const { return (rows.places[row].position + 1) / keys.tokens_per_row; }
};

// The rows that a query chooses from: all that it sees, or those of its candidate blocks, ascending.
struct ChoosableRows {
  int32_t count = 0;
  int32_t of_block = 0;
  const int32_t* blocks = nullptr;  // null: all rows

  __device__ ChoosableRows(const Call& call, int32_t row, int32_t seen) : count(seen) {
    const CandidateBlocks& candidates = call.candidates;
    if (candidates.rows == 0 || candidates.find || blocks_of_rows(candidates, seen) <= candidates.most) return;
    of_block = candidates.rows;
    blocks = candidates.blocks + static_cast<int64_t>(row) * candidates.most;
    // Only the last block may have rows that are not seen.
    const int32_t whole = candidates.most - 1;
    count = whole * of_block + min(of_block, seen - blocks[whole] * of_block);
  }
  // Number of blocks that so many rows make.
  static __device__ int32_t blocks_of_rows(const CandidateBlocks& candidates, int32_t seen) {
    return (seen + candidates.rows - 1) / candidates.rows;
  }
  __device__ int32_t row(int32_t i) const {
    return blocks == nullptr ? i : blocks[i / of_block] * of_block + i % of_block;
  }
};

// Shared memory of a scoring block: queries, products [kLatentTile, weights_stride], a tile, and the addresses of its
// rows.
constexpr int64_t score_bytes(int32_t heads, int32_t key_dim) {
  const int64_t queries = round_up(heads, 4);
  const int64_t floats = queries * key_columns(key_dim) + kLatentTile * (queries + 4) +
                         kLatentTile * int64_t{tile_stride(key_columns(key_dim))};
  return floats * static_cast<int64_t>(sizeof(float)) + kLatentTile * static_cast<int64_t>(sizeof(const std::byte*));
}

__device__ void load_queries(const Call& call, int64_t row, const QueryArrays& arrays) {
  const int32_t columns = key_columns(call.key_dim), warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float* q = call.q + row * call.heads * call.key_dim;
  for (int32_t h = warp; h < arrays.count; h += kAttentionWarps) {
    for (int32_t d = lane; d < columns; d += kWarp) {
      arrays.queries[h * columns + d] = h < call.heads && d < call.key_dim ? q[h * call.key_dim + d] : 0.0f;
    }
  }
}

// Turns products into scores.
__device__ void add_heads(const Call& call, const QueryArrays& arrays, const float* weights, int32_t count,
                          float* scores) {
  const int32_t lane = threadIdx.x % kWarp;
  for (int32_t t = threadIdx.x / kWarp; t < count; t += kAttentionWarps) {
    const float* products = arrays.weights + t * weights_stride(arrays.count);
    float sum = 0;
    for (int32_t h = lane; h < call.heads; h += kWarp) {
      sum = __fmaf_rn(weights[h], products[h] > 0 ? products[h] : 0.0f, sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) scores[t] = sum;
  }
}

// Blocks along x are tiles of the rows that are chosen from, along y queries.
__global__ void __launch_bounds__(kAttentionThreads) score_kernel(Call call) {
  const int32_t row = call.first + static_cast<int32_t>(blockIdx.y);
  const int32_t seen = call.seen_by(row);
  if (seen <= call.most) return;
  const ChoosableRows choosable(call, row, seen);
  const int32_t begin = static_cast<int32_t>(blockIdx.x) * call.tiles_of_block * kLatentTile;
  const int32_t end = min(choosable.count, begin + call.tiles_of_block * kLatentTile);
  if (begin >= end) return;
  QueryArrays arrays{};
  arrays.count = round_up(call.heads, 4);
  arrays.queries = reinterpret_cast<float*>(shared_memory());
  arrays.weights = arrays.queries + arrays.count * key_columns(call.key_dim);
  float* tile = arrays.weights + kLatentTile * weights_stride(arrays.count);
  auto** rows = reinterpret_cast<const std::byte**>(tile + kLatentTile * tile_stride(key_columns(call.key_dim)));
  load_queries(call, row, arrays);
  const int32_t* pages = call.rows.pages + call.rows.places[row].pages_begin;
  const float* weights = call.weights + static_cast<int64_t>(row) * call.heads;
  float* scores = call.scores + static_cast<int64_t>(blockIdx.y) * call.longest;
  for (int32_t at = begin; at < end; at += kLatentTile) {
    if (threadIdx.x < kWarp) {
      const int32_t i = min(at + static_cast<int32_t>(threadIdx.x), end - 1);
      rows[threadIdx.x] = call.keys.row(pages, choosable.row(i));
    }
    __syncthreads();
    decode_rows(call.keys.type, rows, call.key_dim, tile);
    __syncthreads();
    score_page(arrays, tile, key_columns(call.key_dim));
    __syncthreads();
    add_heads(call, arrays, weights, min(end - at, kLatentTile), scores + at);
  }
}

// The selection threshold: ranks above `rank` are taken, and as many of those equal to it as remain.
struct Least {
  uint32_t rank = 0;
  int32_t left = 0;
};

// Finds the digit of the last rank that is taken, if `left` of the counted ones are. Called by the first warp.
__device__ void find_digit(const int32_t* counts, int shift, int32_t left, Least& least) {
  constexpr int32_t kOfLane = kDigits / kWarp;
  const int32_t lane = threadIdx.x;
  const int32_t highest = kDigits - 1 - lane * kOfLane;
  int32_t own = 0;
  for (int32_t i = 0; i < kOfLane; ++i) own += counts[highest - i];
  int32_t upto = own;
#pragma unroll
  for (int apart = 1; apart < kWarp; apart *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, upto, apart);
    if (lane >= apart) upto += other;
  }
  if (upto < left || upto - own >= left) return;
  int32_t above = upto - own, digit = highest;
  for (; above + counts[digit] < left; --digit) above += counts[digit];
  least.rank |= static_cast<uint32_t>(digit) << shift;
  least.left = left - above;
}

__device__ Least find_least(const float* scores, int32_t count, int32_t most) {
  __shared__ int32_t counts[kDigits];
  __shared__ Least least;
  if (threadIdx.x == 0) least = {0, most};
  uint32_t known = 0;  // mask of the bits of `least.rank` that are known
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int32_t i = threadIdx.x; i < kDigits; i += kChooseThreads) counts[i] = 0;
    __syncthreads();
    const uint32_t rank = least.rank;
    const int32_t left = least.left;
    for (int32_t i = threadIdx.x; i < count; i += kChooseThreads) {
      const uint32_t own = rank_of(scores[i]);
      if ((own & known) == rank) atomicAdd(counts + (own >> shift & (kDigits - 1)), 1);
    }
    __syncthreads();
    if (threadIdx.x < kWarp) find_digit(counts, shift, left, least);
    known |= static_cast<uint32_t>(kDigits - 1) << shift;
    __syncthreads();
  }
  return least;
}

// Writes number(i) of the selected scores i, ascending; each warp handles a part of the scores.
template <class Number>
__device__ void write_taken(const float* scores, int32_t count, const Least& least, const Number& number,
                            int32_t* chosen) {
  __shared__ int32_t above_of[kChooseWarps];
  __shared__ int32_t equal_of[kChooseWarps];
  const int32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int32_t part = round_up((count + kChooseWarps - 1) / kChooseWarps, kWarp);
  const int32_t begin = min(warp * part, count), end = min(begin + part, count);
  int32_t above = 0, equal = 0;
  for (int32_t i = begin + lane; i < end; i += kWarp) {
    const uint32_t rank = rank_of(scores[i]);
    above += rank > least.rank ? 1 : 0;
    equal += rank == least.rank ? 1 : 0;
  }
  above = __reduce_add_sync(kAllLanes, above);
  equal = __reduce_add_sync(kAllLanes, equal);
  if (lane == 0) above_of[warp] = above, equal_of[warp] = equal;
  __syncthreads();
  above = equal = 0;
  for (int32_t w = 0; w < warp; ++w) above += above_of[w], equal += equal_of[w];
  int32_t* to = chosen + above + min(equal, least.left);
  const uint32_t lanes_before = (1u << lane) - 1;
  for (int32_t at = begin; at < end; at += kWarp) {
    const int32_t i = at + lane;
    const uint32_t rank = i < end ? rank_of(scores[i]) : 0;
    const bool is_equal = i < end && rank == least.rank;
    const uint32_t equals = __ballot_sync(kAllLanes, is_equal);
    const bool taken =
        (i < end && rank > least.rank) || (is_equal && equal + __popc(equals & lanes_before) < least.left);
    const uint32_t all_taken = __ballot_sync(kAllLanes, taken);
    if (taken) to[__popc(all_taken & lanes_before)] = number(i);
    to += __popc(all_taken);
    equal += __popc(equals);
  }
}

// Overwrites the scores of rows with those of their blocks, of which there are no more: whatever is overwritten has
// been read before a barrier, here or by those that chose rows.
__device__ void score_blocks(float* scores, int32_t blocks, int32_t rows) {
  for (int32_t first = 0; first < blocks; first += kChooseThreads) {
    const int32_t block = first + static_cast<int32_t>(threadIdx.x);
    uint32_t best = 0;
    for (int32_t i = 0; block < blocks && i < rows; ++i) best = max(best, rank_of(scores[block * rows + i]));
    __syncthreads();
    if (block < blocks) scores[block] = number_of(best);
  }
  __syncthreads();
}

// Finds the best blocks of the rows that a query sees.
__device__ void find_blocks(const CandidateBlocks& candidates, int32_t seen, float* scores, int32_t* best) {
  const int32_t count = ChoosableRows::blocks_of_rows(candidates, seen);
  if (count <= candidates.most) {
    for (int32_t i = threadIdx.x; i < count; i += kChooseThreads) best[i] = i;
    return;
  }
  // A block whose last row is not seen yet is the last one, and comes before all others.
  const int32_t whole = seen / candidates.rows;
  const int32_t wanted = candidates.most - (count - whole);
  if (count > whole && threadIdx.x == 0) best[wanted] = whole;
  score_blocks(scores, whole, candidates.rows);
  write_taken(scores, whole, find_least(scores, whole, wanted), [](int32_t block) { return block; }, best);
}

// One block for each query.
__global__ void __launch_bounds__(kChooseThreads) choose_kernel(Call call) {
  const int32_t row = call.first + static_cast<int32_t>(blockIdx.x);
  const int32_t seen = call.seen_by(row);
  int32_t* chosen = call.chosen + static_cast<int64_t>(row) * call.most;
  float* scores = call.scores + static_cast<int64_t>(blockIdx.x) * call.longest;
  if (seen <= call.most) {
    for (int32_t i = threadIdx.x; i < seen; i += kChooseThreads) chosen[i] = i;
  } else {
    const ChoosableRows choosable(call, row, seen);
    const Least least = find_least(scores, choosable.count, call.most);
    write_taken(scores, choosable.count, least, [&](int32_t i) { return choosable.row(i); }, chosen);
  }
  if (call.candidates.rows == 0 || !call.candidates.find) return;
  find_blocks(call.candidates, seen, scores, call.candidates.blocks + static_cast<int64_t>(row) * call.candidates.most);
}

}  // namespace

bool can_choose(int32_t heads, int32_t key_dim) { return score_bytes(heads, key_dim) <= kSharedBytesMax; }

int64_t choose_rows_scratch_bytes(int32_t context_tokens) {
  return std::max<int64_t>(context_tokens, kScoresAtOnce) * static_cast<int64_t>(sizeof(float));
}

void select_topk(LaunchQueue& stream, const ChooseParams& params, const KvView& keys, const Rows& rows, const float* q,
                 const float* weights, void* scratch, int32_t* chosen) {
  CAIRN_DCHECK(keys.kv_heads == 1 && keys.type != KvType::kI16 && params.most > 0);
  CAIRN_CHECK(can_choose(params.heads, keys.key_dim));
  const CandidateBlocks& candidates = params.candidates;
  CAIRN_DCHECK(candidates.rows == 0 || (candidates.most - 1) * int64_t{candidates.rows} >= params.most);
  if (rows.count == 0) return;
  Call call{.keys = LatentPages(keys),
            .key_dim = keys.key_dim,
            .heads = params.heads,
            .most = params.most,
            .candidates = params.candidates,
            .rows = rows,
            .longest = kv_rows(rows.positions_max, keys.tokens_per_row),
            .q = q,
            .weights = weights,
            .scores = static_cast<float*>(scratch),
            .chosen = chosen};
  int device = 0;
  cudaGetDevice(&device);
  const int64_t bytes = score_bytes(params.heads, keys.key_dim);
  const bool among = candidates.rows > 0 && !candidates.find;
  const int64_t scored =
      among ? std::min<int64_t>(call.longest, int64_t{candidates.most} * candidates.rows) : call.longest;
  const int64_t tiles = (scored + kLatentTile - 1) / kLatentTile;
  const int64_t at_once =
      std::clamp<int64_t>(kScoresAtOnce / std::max(call.longest, 1), 1, std::min<int64_t>(rows.count, kGridMax));
  for (int64_t first = 0; first < rows.count; first += at_once) {
    const int64_t queries = std::min(at_once, rows.count - first);
    call.first = static_cast<int32_t>(first);
    if (call.longest > params.most) {
      call.tiles_of_block =
          static_cast<int32_t>(std::clamp<int64_t>(tiles * queries / kBlocksWanted, 1, kTilesOfBlockMax));
      const dim3 grid(blocks_of(tiles, call.tiles_of_block, INT32_MAX), static_cast<unsigned>(queries));
      launch_large<score_kernel>(device, grid, kAttentionThreads, bytes, stream, call);
    }
    launch(choose_kernel, dim3(static_cast<unsigned>(queries)), kChooseThreads, 0, stream, call);
  }
}

}  // namespace cairn::kernels::cuda
