/// Attention of tiles of up to 64 queries, as in the steps of a prompt: a warp has 16 queries in registers, as operands
/// of the tensor cores, with the sums of all dimensions of their values, and goes through the pages of keys and values
/// that the block has in shared memory. A chunk's sums are merged with those of the chunks before, which each thread
/// keeps in shared memory.
///
/// Every number is computed by the same operations in the same order as in few_queries.cu.
///
/// Estimate for an H100, heads of 128, float16: a page of a warp is 262,144 operations in 64 mma.sync, which take a
/// multiprocessor 100 cycles; 32 ldmatrix, 128 cycles of its shared memory; and about 400 instructions in all, 100
/// cycles of its four schedulers. With half of the cycles of shared memory used that is 230 TFLOP/s. All blocks
/// together read 16 KB of the second-level cache for 64 queries and a page: 3.6 TB/s then. Measured: 138 TFLOP/s for
/// 512 rows with 4,096 positions.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/attention/many_queries.h"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/attention/mma_registers.cuh"
#include "kernels/cuda/attention/page_ring.cuh"
#include "kernels/cuda/attention/tile_list.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int32_t kWarpQueries = 16;
constexpr int32_t kQueriesMax = kWarps * kWarpQueries;

/// The sizes that a kernel is compiled for. With kDim != 0 keys and values have that number of elements, and queries
/// are kept in registers; other sizes, with at most 8 kValueTiles elements of a value, have queries in shared memory.
template <KvType kType_, int kDim_, int kValueTiles_>
struct Kind {
  static constexpr KvType kType = kType_;
  static constexpr int kDim = kDim_;
  static constexpr int kValueTiles = kValueTiles_;
  static constexpr int kKeySteps = kDim / 16;
  // Pages of the ring; 0 if the call says how many.
  static constexpr int kSlots = kDim == 0 ? 0 : stored_in_halves(kType) ? 3 : 2;
  // Whether the sums of the chunks before are in shared memory; otherwise they are in `out`.
  static constexpr bool kJoinsInShared = kValueTiles <= 16;
  static constexpr int kBlocks = kDim == 64 ? 3 : 2;  // of a multiprocessor
};

// Offsets in shared memory; the list of tiles is at 0.
struct Layout {
  int32_t queries = 0;  // [queries, half_stride(key_dim)] if they are not in registers
  int32_t joined = 0;   // float2 [2 kValueTiles, kThreads]: the sums of the chunks before, of each thread
  int32_t ring = 0;
  int32_t bytes = 0;
};
template <class Kind>
CAIRN_HOST_DEVICE Layout lay_out(const AttentionCall& call) {
  const int32_t queries = Kind::kDim != 0 ? 0 : call.tiling.queries;
  Layout layout;
  layout.queries = round_up(tile_list_words(call.rows.count) * static_cast<int32_t>(sizeof(uint32_t)), 16);
  layout.joined = layout.queries + queries * half_stride(call.key_dim) * static_cast<int32_t>(sizeof(uint16_t));
  const int32_t joined = Kind::kJoinsInShared ? 2 * Kind::kValueTiles * kThreads : 0;
  layout.ring = layout.joined + joined * static_cast<int32_t>(sizeof(float2));
  layout.bytes = layout.ring + lay_out_ring(stored_in_halves(Kind::kType), call.key_dim, call.value_dim,
                                            call.pages.key_row_bytes, call.pages.value_row_bytes, call.tiling.slots)
                                   .bytes;
  return layout;
}

// The 16 queries of a warp as 16-bit numbers; lane 4 g + t has every fourth pair of those of rows g and g + 8.
template <class Kind>
class QueryOperands {
 public:
  static constexpr bool kInRegisters = Kind::kDim != 0;

  /// Loads the rows `q` of the lane's two queries, null if there is none. `memory` has room for 16 rows, unless they
  /// are kept in registers. Called by a whole warp.
  __device__ void load(const float* const (&q)[2], int32_t dim, uint16_t* memory) {
    if constexpr (kInRegisters) {
      float2 twos[Kind::kKeySteps][4];
#pragma unroll
      for (int k = 0; k < Kind::kKeySteps; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) twos[k][i] = two_of(q[i % 2], 16 * k + i / 2 * 8 + pair(), Kind::kDim);
      }
      float largest[2] = {0, 0};
#pragma unroll
      for (int k = 0; k < Kind::kKeySteps; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) largest[i % 2] = with(largest[i % 2], twos[k][i]);
      }
      const float2 inverse = find_scales(largest);
#pragma unroll
      for (int k = 0; k < Kind::kKeySteps; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) operands_[k][i] = packed(twos[k][i], i % 2 == 0 ? inverse.x : inverse.y);
      }
    } else {
      float largest[2] = {0, 0};
#pragma unroll 4
      for (int32_t d = pair(); d < dim; d += 8) {
#pragma unroll
        for (int r = 0; r < 2; ++r) largest[r] = with(largest[r], two_of(q[r], d, dim));
      }
      const float2 inverse = find_scales(largest);
      const int32_t row = static_cast<int32_t>(threadIdx.x) % kWarp / 4;
#pragma unroll 4
      for (int32_t d = pair(); d < half_columns(dim); d += 8) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          auto* to = reinterpret_cast<uint32_t*>(memory + (row + 8 * r) * half_stride(dim) + d);
          *to = packed(two_of(q[r], d, dim), r == 0 ? inverse.x : inverse.y);
        }
      }
      __syncwarp();
      memory_ = memory;
    }
  }
  /// The factor of row g + 8 r.
  __device__ float scale(int r) const { return scales_[r]; }

  /// Adds the products with a page's keys.
  __device__ __forceinline__ void multiply(const uint16_t* keys, int32_t dim, PageScores& scores) const {
    if constexpr (kInRegisters) {
      constexpr int32_t kStride = half_stride(Kind::kDim);
      const int32_t lane = threadIdx.x % kWarp, matrix = lane / 8, row = lane % 8;
      const uint16_t* key = keys + (matrix / 2 * 8 + row) * kStride + matrix % 2 * 8;
#pragma unroll
      for (int k = 0; k < Kind::kKeySteps; ++k) {
#pragma unroll
        for (int n = 0; n < kKeyTiles; n += 2) {
          uint32_t b[4];
          load_matrices<false>(key + n * 8 * kStride + 16 * k, b);
          multiply_halves<kBfloat>(operands_[k], {b[0], b[1]}, scores[n]);
          multiply_halves<kBfloat>(operands_[k], {b[2], b[3]}, scores[n + 1]);
        }
      }
    } else {
      add_products<kBfloat, Code::kFast>(memory_, 0, kWarpQueries, keys, dim, scores);
    }
  }

 private:
  static constexpr bool kBfloat = cuda::kBfloat<Kind::kType>;

  static __device__ int32_t pair() { return threadIdx.x % 4 * 2; }
  static __device__ float2 two_of(const float* q, int32_t d, int32_t dim) {
    if (q == nullptr || d >= dim) return make_float2(0, 0);
    if (dim % 2 == 0) return *reinterpret_cast<const float2*>(q + d);
    return make_float2(q[d], d + 1 < dim ? q[d + 1] : 0.0f);
  }
  static __device__ float with(float largest, float2 two) {
    return kBfloat ? 0.0f : fmaxf(largest, fmaxf(fabsf(two.x), fabsf(two.y)));
  }
  static __device__ uint32_t packed(float2 two, float inverse) {
    return pack_halves<kBfloat>(__fmul_rn(two.x, inverse), __fmul_rn(two.y, inverse));
  }
  // The inverse of a power of two.
  static __device__ float inverse_of(float scale) {
    constexpr uint32_t kExponentOfOne = 127, kMantissaBits = 23;
    return __uint_as_float((2 * kExponentOfOne << kMantissaBits) - __float_as_uint(scale));
  }
  // Sets the scales and returns their inverses.
  __device__ float2 find_scales(float (&largest)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int apart = 1; apart < 4; apart *= 2) {
        largest[r] = fmaxf(largest[r], __shfl_xor_sync(kAllLanes, largest[r], apart));
      }
      scales_[r] = query_scale_of(largest[r]);
    }
    return make_float2(inverse_of(scales_[0]), inverse_of(scales_[1]));
  }

  uint32_t operands_[kInRegisters ? Kind::kKeySteps : 1][4];
  const uint16_t* memory_ = nullptr;
  float scales_[2] = {1, 1};
};

// A tile: the warp's sums are of queries g = lane / 4 and g + 8 of its 16, and of all dimensions of their values, where
// lane 4 g + t has numbers 2 t and 2 t + 1 of each eight.
template <class Kind>
class ManyQueries {
 public:
  __device__ ManyQueries(const AttentionCall& call, const Tile& tile, const Layout& layout)
      : call_(call),
        tile_(tile),
        lane_(static_cast<int32_t>(threadIdx.x) % kWarp),
        first_(static_cast<int32_t>(threadIdx.x) / kWarp * kWarpQueries),
        joined_(reinterpret_cast<float2*>(shared_memory() + layout.joined) + threadIdx.x),
        ring_(call, tile, tile.seen_by_row(call.params, tile.rows - 1).end, shared_memory() + layout.ring) {
    const float* q[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) q[r] = exists(r) ? call.q + query(r) * call.key_dim : nullptr;
    auto* memory = reinterpret_cast<uint16_t*>(shared_memory() + layout.queries);
    if (queries_.kInRegisters || first_ < tile.queries()) {
      queries_.load(q, call.key_dim, memory + first_ * half_stride(call.key_dim));
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rules_[r] = exists(r) ? rule_of(call, tile, queries_.scale(r), number(r)) : ScoreRule{};
    }
    const int32_t last = min(first_ + kWarpQueries, tile.queries()) - 1;
    if (first_ > last) return;
    const SeenPositions upper = tile.seen_by_query(call.params, first_);
    const SeenPositions lower = tile.seen_by_query(call.params, last);
    if (call.params.soft_cap == 0 && call.params.slopes == nullptr) all_see_plainly_ = {lower.begin, upper.end};
  }

  /// Processes pages [begin, end) of the tile.
  __device__ void attend(int32_t begin, int32_t end) {
    const int32_t chunk_pages = tile_.chunk / kPageTokens;
    ring_.begin(begin, end);
    for (int32_t page = begin; page < end;) {
      const int32_t chunk = page / chunk_pages, chunk_end = min(end, (chunk + 1) * chunk_pages);
      begin_chunk();
#pragma unroll 1
      for (; page < chunk_end; ++page) {
        ring_.next(page);
        add_page(page * kPageTokens);
      }
      end_chunk(chunk);
    }
    wait_for_copies<0>();
  }

 private:
  static constexpr int kValueTiles = Kind::kValueTiles;
  static constexpr bool kBfloat = cuda::kBfloat<Kind::kType>;

  __device__ int32_t key_dim() const { return Kind::kDim != 0 ? Kind::kDim : call_.key_dim; }
  __device__ int32_t value_dim() const { return Kind::kDim != 0 ? Kind::kDim : call_.value_dim; }
  // The lane's query r, 0 or 1: its number in the tile, whether it exists, and its number in the call.
  __device__ int32_t number(int r) const { return first_ + lane_ / 4 + 8 * r; }
  __device__ bool exists(int r) const { return number(r) < tile_.queries(); }
  __device__ int64_t query(int r) const {
    return tile_.row_of(number(r)) * call_.params.heads + tile_.head_of(number(r));
  }

  __device__ void begin_chunk() { clear_sums(largest_, total_, sums_); }

  // Adds the page that begins at position `begin`, which the ring has.
  __device__ __forceinline__ void add_page(int32_t begin) {
    // There is no memory for these queries.
    if (!queries_.kInRegisters && first_ >= tile_.queries()) return;
    PageScores scores = {};
    PageWeights weights;
    float factor[2];
    queries_.multiply(ring_.keys(), key_dim(), scores);
    if (begin >= all_see_plainly_.begin && begin + kPageTokens <= all_see_plainly_.end) {
      weigh<true>(begin, scores, factor);
    } else {
      weigh<false>(begin, scores, factor);
    }
    pack_weights<kBfloat>(scores, weights);
    add_weighted_values<kBfloat>(weights, factor, ring_.values(), half_stride(value_dim()), 0, value_dim(), sums_);
  }
  // Turns scores into exponentials and finds the factors on the sums so far.
  template <bool kPlain>
  __device__ __forceinline__ void weigh(int32_t begin, PageScores& scores, float (&factor)[2]) {
    const float before[2] = {largest_[0], largest_[1]};
    largest_[0] = fmaxf(find_exponents<0, Code::kFast, kPlain>(rules_[0], begin, scores), before[0]);
    largest_[1] = fmaxf(find_exponents<1, Code::kFast, kPlain>(rules_[1], begin, scores), before[1]);
    const float total[2] = {find_exponentials<0, Code::kFast, kPlain>(rules_[0], begin, largest_[0], scores),
                            find_exponentials<1, Code::kFast, kPlain>(rules_[1], begin, largest_[1], scores)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      factor[r] = page_factor(before[r], largest_[r]);
      total_[r] = __fmaf_rn(total_[r], factor[r], total[r]);
    }
  }

  // Writes the chunk's sums as pieces, or merges them with those of the chunks before and writes the last ones.
  __device__ void end_chunk(int32_t chunk) {
    end_chunk_of<0>(chunk);
    end_chunk_of<1>(chunk);
  }
  template <int kRow>
  __device__ __forceinline__ void end_chunk_of(int32_t chunk) {
    const SeenPositions seen = rules_[kRow].seen;
    const int32_t begin = chunk * tile_.chunk, end = begin + tile_.chunk;
    if (seen.begin >= end || seen.end <= begin) return;
    const bool first = seen.begin >= begin, last = seen.end <= end;
    if (call_.pieces.numbers != nullptr) {
      const int64_t piece = query(kRow) * kChunksMax + chunk - seen.begin / tile_.chunk;
      if (lane_ % 4 == 0) call_.pieces.numbers[piece] = make_float2(largest_[kRow], total_[kRow]);
      write<kRow>(1, call_.pieces.values + piece * value_dim());
      return;
    }
    Joint joint{largest_[kRow], 0, 1};
    float total = total_[kRow];
    if (!first) {
      joint = joint_of(joined_largest_[kRow], joint.largest);
      total = joined(joint.keep, joined_total_[kRow], joint.take, total);
    }
    joined_largest_[kRow] = joint.largest;
    joined_total_[kRow] = total;
    float* out = call_.out + query(kRow) * value_dim();
    float finish = 1;
    if (last) {
      const float sink = call_.params.sinks == nullptr ? -INFINITY : call_.params.sinks[tile_.head_of(number(kRow))];
      finish = finish_factor(joint.largest, total, sink);
    }
    if constexpr (Kind::kJoinsInShared) {
      if (!first) join_with_shared<kRow>(joint);
      if (!last) return keep<kRow>();
    } else if (!first) {
      join_with<kRow>(out, joint);
    }
    write<kRow>(finish, out);
  }
  template <int kRow>
  __device__ __forceinline__ void join_with_shared(const Joint& joint) {
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
      const float2 two = joined_[(2 * v + kRow) * kThreads];
      float* sums = sums_[v] + 2 * kRow;
      sums[0] = joined(joint.keep, two.x, joint.take, sums[0]);
      sums[1] = joined(joint.keep, two.y, joint.take, sums[1]);
    }
  }
  template <int kRow>
  __device__ __forceinline__ void keep() const {
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
      joined_[(2 * v + kRow) * kThreads] = make_float2(sums_[v][2 * kRow], sums_[v][2 * kRow + 1]);
    }
  }
  template <int kRow>
  __device__ __forceinline__ void join_with(const float* out, const Joint& joint) {
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t column = 8 * v + lane_ % 4 * 2 + i;
        float& sum = sums_[v][2 * kRow + i];
        if (column < value_dim()) sum = joined(joint.keep, out[column], joint.take, sum);
      }
    }
  }
  template <int kRow>
  __device__ __forceinline__ void write(float factor, float* to) const {
    const int32_t dim = value_dim();
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
      const int32_t column = 8 * v + lane_ % 4 * 2;
      const float2 two = make_float2(__fmul_rn(sums_[v][2 * kRow], factor), __fmul_rn(sums_[v][2 * kRow + 1], factor));
      if (dim % 2 == 0) {
        if (column < dim) *reinterpret_cast<float2*>(to + column) = two;
        continue;
      }
      if (column < dim) to[column] = two.x;
      if (column + 1 < dim) to[column + 1] = two.y;
    }
  }

  const AttentionCall& call_;
  const Tile& tile_;
  const int32_t lane_;
  const int32_t first_;   // the warp's first query
  float2* const joined_;  // sums of the chunks before
  PageRing<Kind::kType, Kind::kDim, Kind::kSlots, kThreads> ring_;
  QueryOperands<Kind> queries_;
  ScoreRule rules_[2] = {};
  // Positions that all queries of the warp see, if there is no rule but a scale.
  SeenPositions all_see_plainly_;
  // Largest scores, totals and sums of the chunk so far.
  float largest_[2];
  float total_[2];
  float sums_[kValueTiles][4];
  // Largest scores and totals of the chunks before.
  float joined_largest_[2];
  float joined_total_[2];
};

template <class Kind>
__device__ void attend_tile(const AttentionCall& call, const Tile& tile, const Layout& layout) {
  const int32_t page_begin = tile.seen_by_row(call.params, 0).begin / kPageTokens;
  const int32_t page_end = (tile.seen_by_row(call.params, tile.rows - 1).end - 1) / kPageTokens + 1;
  const bool split = call.pieces.numbers != nullptr;
  // If it is split, the block has every gridDim.z-th chunk.
  const int32_t chunk_pages = tile.chunk / kPageTokens;
  const int32_t first = split ? (page_begin / chunk_pages + static_cast<int32_t>(blockIdx.z)) * chunk_pages : 0;
  if (first >= page_end) return;
  ManyQueries<Kind> queries(call, tile, layout);
#pragma unroll 1
  for (int32_t begin = first; begin < page_end; begin += static_cast<int32_t>(gridDim.z) * chunk_pages) {
    queries.attend(max(page_begin, begin), split ? min(page_end, begin + chunk_pages) : page_end);
    if (!split) break;
  }
}

// Blocks along x are tiles of heads, along y tiles of rows, along z chunks. Places and page ids are written by copies
// and not by kernels, so they are there before the kernels before have ended.
template <class Kind>
__global__ void __launch_bounds__(kThreads, Kind::kBlocks) many_queries_kernel(AttentionCall call) {
  trigger_dependents();
  auto* list = reinterpret_cast<uint32_t*>(shared_memory());
  list_tiles<kThreads>(call, list);
  const TileRows rows = rows_of_tile(list, call.rows.count, static_cast<int32_t>(blockIdx.y));
  wait_for_dependencies();
  if (rows.begin == rows.end) return;
  const Tile tile = tile_at(call, rows, static_cast<int32_t>(blockIdx.x));
  attend_tile<Kind>(call, tile, lay_out<Kind>(call));
}

// Chooses the tiles, and sets the bytes of shared memory; false if not even the smallest ones fit.
template <class Kind>
bool choose_tiling(AttentionCall& call, int64_t bytes_max) {
  AttentionTiling& tiling = call.tiling;
  for (int32_t queries = kQueriesMax; queries >= kWarpQueries; queries /= 2) {
    choose_tiles(queries, call.rows.slice_rows_max, tiling);
    tiling.queries = round_up(tiling.queries, kWarpQueries);
    for (tiling.slots = Kind::kDim != 0 ? Kind::kSlots : 2; tiling.slots > 0; --tiling.slots) {
      tiling.shared_bytes = lay_out<Kind>(call).bytes;
      if (tiling.shared_bytes <= bytes_max) return true;
      if (Kind::kDim != 0) break;
    }
  }
  return false;
}

template <class Kind>
bool start(LaunchQueue& stream, AttentionCall& call, int32_t kv_heads, int32_t chunks, int device) {
  if (!choose_tiling<Kind>(call, shared_bytes_max(device))) return false;
  const int32_t tiles = tiles_most(call);
  CAIRN_CHECK(tiles <= kGridMax);
  const dim3 grid(static_cast<unsigned>(kv_heads * call.tiling.head_tiles), static_cast<unsigned>(tiles),
                  static_cast<unsigned>(chunks));
  launch_large_dependent<many_queries_kernel<Kind>>(device, grid, kThreads, call.tiling.shared_bytes, stream, call);
  return true;
}

template <KvType kType>
bool start(LaunchQueue& stream, AttentionCall& call, int32_t kv_heads, int32_t chunks, int device) {
  if (call.key_dim == call.value_dim) {
    if (call.key_dim == 128) return start<Kind<kType, 128, 16>>(stream, call, kv_heads, chunks, device);
    if (call.key_dim == 64) return start<Kind<kType, 64, 8>>(stream, call, kv_heads, chunks, device);
  }
  if (call.value_dim > 128) return start<Kind<kType, 0, 32>>(stream, call, kv_heads, chunks, device);
  return start<Kind<kType, 0, 16>>(stream, call, kv_heads, chunks, device);
}

}  // namespace

bool start_many_queries(LaunchQueue& stream, AttentionCall call, const KvView& kv, int32_t chunks, int device) {
  if (value_tiles(kv.type, kv.value_dim) == 0) return false;
  switch (kv.type) {
    case KvType::kF16:
      return start<KvType::kF16>(stream, call, kv.kv_heads, chunks, device);
    case KvType::kBF16:
      return start<KvType::kBF16>(stream, call, kv.kv_heads, chunks, device);
    case KvType::kQ8_0:
      return start<KvType::kQ8_0>(stream, call, kv.kv_heads, chunks, device);
    case KvType::kF32:
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  return false;
}

}  // namespace cairn::kernels::cuda
