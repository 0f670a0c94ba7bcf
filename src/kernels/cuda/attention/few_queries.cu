/// Attention of tiles of at most 16 queries, as in decoding, where it is not the arithmetic that takes time but steps
/// that wait for each other. So a block requests all keys and values of its chunk at once, each warp computes the
/// weights of a page of its own, and after that each warp adds all pages to a few dimensions of the values.
///
/// Every number is computed by the same operations in the same order as in many_queries.cu: scores and exponentials of
/// a page do not depend on other pages but for the largest score before them, and the sums of different dimensions do
/// not depend on each other.
///
/// Measured on an H100, heads of 128: 5 us for 60 positions of one sequence once the kernels before have ended, most of
/// which instructions take that run once, so there should be few; 11 us with the merge for 4,096 positions; 32
/// sequences of those read keys and values at 87 % of the speed of copies.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cuda/attention/few_queries.h"
#include "kernels/cuda/attention/merge.h"
#include "kernels/cuda/attention/mma_registers.cuh"
#include "kernels/cuda/attention/tile.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/large_launch.cuh"

namespace cairn::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
// Blocks that a multiprocessor has registers for.
constexpr int kBlocks = 2;
// Blocks that are there when a kernel begins, at most, on a GPU of about 132 multiprocessors.
constexpr unsigned kFirstBlocks = 264;
// Queries of a tile, which are the rows of a product; a lane has those of row lane / 4 and of the row 8 below.
constexpr int32_t kQueriesMax = 16;
// Pages in shared memory. Each warp has the scores of one.
constexpr int32_t kSlotsMax = kWarps;
// Maximum queries of a slice for a KV head; with more, pages would be read too often.
constexpr int32_t kSliceQueriesMax = 32;

// Whether rows are multiplied as they are stored.
CAIRN_HOST_DEVICE constexpr bool copied(KvType type) { return type != KvType::kQ8_0; }

CAIRN_HOST_DEVICE constexpr int32_t half_row_bytes(int32_t dim) {
  return half_stride(dim) * static_cast<int32_t>(sizeof(uint16_t));
}

// Offsets in shared memory, multiples of 16 bytes.
struct Layout {
  int32_t scales = 0;   // float [queries]; the queries themselves are at 0
  int32_t largest = 0;  // float [slots, kQueriesMax]
  int32_t numbers = 0;  // float2 [slots, kQueriesMax]
  int32_t weights = 0;  // uint4 [slots, 2 if there are more than eight queries, kWarp]
  int32_t slots = 0;
  int32_t bytes = 0;
  // A slot has the page's keys as they are stored, its values as they are stored, and, if they are not copied, the
  // decoded keys or values.
  int32_t values = 0;
  int32_t decoded = 0;
  int32_t slot_bytes = 0;
};
CAIRN_HOST_DEVICE constexpr int32_t weights_parts(int32_t queries) { return queries > 8 ? 2 : 1; }
Layout layout_of(bool as_stored, const AttentionCall& call, int32_t queries, int32_t slots) {
  constexpr int32_t kFloat = sizeof(float);
  const int32_t keys = half_row_bytes(call.key_dim), values = half_row_bytes(call.value_dim);
  Layout layout;
  layout.values = kPageTokens * (as_stored ? keys : static_cast<int32_t>(call.pages.key_row_bytes));
  layout.decoded =
      layout.values + kPageTokens * (as_stored ? values : static_cast<int32_t>(call.pages.value_row_bytes));
  layout.slot_bytes = layout.decoded + (as_stored ? 0 : kPageTokens * std::max(keys, values));
  layout.scales = queries * keys;
  layout.largest = layout.scales + kQueriesMax * kFloat;
  layout.numbers = layout.largest + slots * kQueriesMax * kFloat;
  layout.weights = layout.numbers + slots * kQueriesMax * 2 * kFloat;
  layout.slots = layout.weights + slots * weights_parts(queries) * kWarp * static_cast<int32_t>(sizeof(uint4));
  layout.bytes = layout.slots + slots * layout.slot_bytes;
  return layout;
}

// Copies bytes that are consecutive; called by a whole warp.
__device__ void copy_bytes(const std::byte* from, int32_t bytes, std::byte* to) {
  for (int32_t i = 16 * (threadIdx.x % kWarp); i < bytes; i += 16 * kWarp)
    __pipeline_memcpy_async(to + i, from + i, 16);
}
// Copies `count` consecutive rows of `row_bytes` bytes, a multiple of 16, to rows that are 16-bit rows of shared
// memory. Called by a whole warp.
__device__ __forceinline__ void copy_rows(const std::byte* from, int32_t row_bytes, int32_t count, int32_t stride,
                                          std::byte* to) {
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t pieces = row_bytes / 16;  // of 16 bytes
  const int32_t rows_on = kWarp / pieces, pieces_on = kWarp % pieces;
  int32_t piece = lane % pieces;
  from += 16 * lane;
  to += lane / pieces * stride + 16 * piece;
#pragma unroll 2
  for (int32_t i = lane; i < count * pieces; i += kWarp) {
    __pipeline_memcpy_async(to, from, 16);
    from += 16 * kWarp;
    to += rows_on * stride + 16 * pieces_on;
    piece += pieces_on;
    if (piece >= pieces) {
      piece -= pieces;
      to += stride - row_bytes;
    }
  }
}
// A query of kDim elements, in the registers of a warp until it is written to shared memory as begin_query_halves does;
// without any if kDim is 0.
template <bool kBfloat, int kDim>
class QueryInRegisters {
 public:
  __device__ void load(const float* q) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) elements_[i] = q[threadIdx.x % kWarp + i * kWarp];
  }
  __device__ void store(const QueryArrays& arrays, int32_t query) const {
    const int lane = threadIdx.x % kWarp;
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kElements && !kBfloat; ++i) largest = fmaxf(largest, fabsf(elements_[i]));
    const float scale = query_scale_of(warp_max(largest));
    const float inverse = __uint_as_float((254u << 23) - __float_as_uint(scale));  // that of a power of two
    uint16_t* to = reinterpret_cast<uint16_t*>(arrays.queries) + query * half_stride(kDim) + lane;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      to[i * kWarp] = static_cast<uint16_t>(half_bits<kBfloat>(__fmul_rn(elements_[i], inverse)));
    }
    if (lane == 0) arrays.query_scale[query] = scale;
  }

 private:
  static constexpr int kElements = kDim / kWarp;
  static_assert(kDim % kWarp == 0);
  float elements_[kElements > 0 ? kElements : 1];
};

// Pages [begin, end) of a chunk, at most as many as there are slots: page begin + i is in slot i.
struct PageGroup {
  int32_t chunk = 0;
  int32_t begin = 0;
  int32_t end = 0;

  __device__ bool empty() const { return begin >= end; }
};

// The tile's sums in registers: of queries g = lane / 4 and g + 8, and of kValueTiles groups of eight dimensions of
// their values, where lane 4 g + t has numbers 2 t and 2 t + 1. kDim: elements of keys and of values, or 0 for any
// number. As a constant it makes loops short, so a common number has a kernel of its own.
template <KvType kType, bool kSplit, int kValueTiles, int kDim>
class FewQueries {
 public:
  __device__ FewQueries(const AttentionCall& call, const Layout& layout, const Tile& tile)
      : call_(call),
        tile_(tile),
        layout_(layout),
        warp_(static_cast<int32_t>(threadIdx.x) / kWarp),
        lane_(static_cast<int32_t>(threadIdx.x) % kWarp),
        column_(8 * kValueTiles * warp_),
        chunk_pages_(tile.chunk / kPageTokens),
        seen_end_(tile.seen_by_row(call.params, tile.rows - 1).end),
        page_end_((seen_end_ - 1) / kPageTokens + 1) {
    arrays_.count = tile.queries();
    arrays_.queries = reinterpret_cast<float*>(shared_memory());
    arrays_.query_scale = at<float>(layout_.scales);
  }

  // Copies of keys and of values are groups of copies in turn.
  __device__ void attend() {
    PageGroup group = first_group();
    if (group.empty()) return;
    int32_t page = page_of_warp(group);
    prefetch(group, page);
    wait_for_dependencies();
    __syncthreads();  // the tile before is finished
    begin(group, page);
    begin_chunk();
    for (;;) {
      const PageGroup next = group_after(group);
      page = page_of_warp(next);
      PageScores scores = {};
      score(group, scores, next, page);
      weigh(group, scores, next, page);
      add(group);
      if (next.empty() || next.chunk != group.chunk) end_chunk(group.chunk);
      if (next.empty()) break;
      if (next.chunk != group.chunk) begin_chunk();
      __syncthreads();  // the slots are free
      if constexpr (copied(kType)) {
        copy(next, page, true);
        end_copies();
      }
      group = next;
    }
    wait_for_copies<0>();
  }

 private:
  __device__ int32_t key_dim() const { return kDim > 0 ? kDim : call_.key_dim; }
  __device__ int32_t value_dim() const { return kDim > 0 ? kDim : call_.value_dim; }

  template <class T>
  __device__ T* at(int32_t offset) const {
    return reinterpret_cast<T*>(shared_memory() + offset);
  }
  __device__ std::byte* slot(int32_t i) const { return shared_memory() + layout_.slots + i * layout_.slot_bytes; }
  __device__ const uint16_t* keys(int32_t i) const {
    return reinterpret_cast<const uint16_t*>(slot(i) + (copied(kType) ? 0 : layout_.decoded));
  }
  __device__ const uint16_t* values(int32_t i) const {
    return reinterpret_cast<const uint16_t*>(slot(i) + (copied(kType) ? layout_.values : layout_.decoded));
  }

  __device__ PageGroup group_at(int32_t chunk, int32_t begin) const {
    return {chunk, begin, min(min(begin + call_.tiling.slots, (chunk + 1) * chunk_pages_), page_end_)};
  }
  // If it is split, the block has every gridDim.z-th chunk.
  __device__ PageGroup first_group() const {
    const int32_t begin = tile_.seen_by_row(call_.params, 0).begin / kPageTokens;
    const int32_t chunk = begin / chunk_pages_ + (kSplit ? static_cast<int32_t>(blockIdx.z) : 0);
    return group_at(chunk, max(begin, chunk * chunk_pages_));
  }
  __device__ PageGroup group_after(const PageGroup& group) const {
    if (group.end < (group.chunk + 1) * chunk_pages_) return group_at(group.chunk, group.end);
    const int32_t chunk = group.chunk + (kSplit ? static_cast<int32_t>(gridDim.z) : 1);
    return group_at(chunk, chunk * chunk_pages_);
  }
  // A query's row in the tile. There are few rows, so this is shorter than a division.
  __device__ int32_t row_number(int32_t query) const {
    int32_t row = 0;
#pragma unroll 1
    for (; query >= tile_.heads; query -= tile_.heads) ++row;
    return row;
  }
  __device__ int64_t query_number(int32_t query) const {
    const int32_t row = row_number(query);
    return (tile_.row + row) * call_.params.heads + tile_.head + query - row * tile_.heads;
  }
  // Id of the page of which the warp has the scores, if it has one.
  __device__ int32_t page_of_warp(const PageGroup& group) const {
    return group.begin + warp_ < group.end ? tile_.pages[group.begin + warp_] : kNone;
  }
  // Number of rows of a page that have been written.
  __device__ int32_t rows_there(int32_t number) const { return min(seen_end_ - number * kPageTokens, kPageTokens); }

  // Starts loading the warp's page into the second-level cache, in the blocks that begin before the kernels before this
  // one have ended. Those may write to the page meanwhile.
  __device__ void prefetch(const PageGroup& group, int32_t page) const {
    if (page == kNone || blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z) >= kFirstBlocks) return;
    const int32_t rows = rows_there(group.begin + warp_);
    const auto prefetch_bytes = [&](const std::byte* from, int64_t row_bytes) {
      const int32_t bytes = rows * static_cast<int32_t>(row_bytes);
      for (int32_t i = kLineBytes * lane_; i < bytes; i += kLineBytes * kWarp) prefetch_line(from + i);
    };
    prefetch_bytes(call_.pages.keys(page, tile_.kv_head), call_.pages.key_row_bytes);
    prefetch_bytes(call_.pages.values(page, tile_.kv_head), call_.pages.value_row_bytes);
  }
  // Copies the warp's page of keys or values as they are stored.
  __device__ __forceinline__ void copy(const PageGroup& group, int32_t page, bool of_values) const {
    if (page == kNone) return;
    const int32_t count = rows_there(group.begin + warp_);
    const auto row_bytes = static_cast<int32_t>(of_values ? call_.pages.value_row_bytes : call_.pages.key_row_bytes);
    const std::byte* from = of_values ? call_.pages.values(page, tile_.kv_head) : call_.pages.keys(page, tile_.kv_head);
    std::byte* to = slot(warp_) + (of_values ? layout_.values : 0);
    if constexpr (copied(kType)) {
      const int32_t stride = half_row_bytes(of_values ? value_dim() : key_dim());
      copy_rows(from, kDim > 0 ? 2 * kDim : row_bytes, count, stride, to);
      // Rows that were never written may hold anything, and 0 times infinity is not 0.
#pragma unroll 1
      for (int32_t i = count * stride + 16 * lane_; i < kPageTokens * stride; i += 16 * kWarp) {
        if (of_values) *reinterpret_cast<uint4*>(to + i) = uint4{};
      }
    } else {
      copy_bytes(from, count * row_bytes, to);
    }
  }
  // Decodes a group's keys or values, of which the stored ones are `offset` bytes after a slot's begin. All warps have
  // some rows of each page.
  __device__ void decode(const PageGroup& group, int32_t offset, int64_t row_bytes, int32_t dim) const {
    for (int32_t i = 0; i < group.end - group.begin; ++i) {
      const std::byte* stored = slot(i) + offset;
      decode_page_halves<kType, kWarps>([=](int32_t row) { return stored + row * row_bytes; },
                                        rows_there(group.begin + i), dim,
                                        reinterpret_cast<uint16_t*>(slot(i) + layout_.decoded));
    }
  }

  // Requests the first group, and prepares queries while it is on its way.
  __device__ void begin(const PageGroup& group, int32_t page) {
    const auto query_at = [&](int32_t i) { return call_.q + query_number(i) * key_dim(); };
    QueryInRegisters<kBfloat<kType>, kDim> query;
    const bool in_registers = kDim > 0 && warp_ < arrays_.count;
    if (in_registers) query.load(query_at(warp_));
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
      copy(group, page, i == 1);
      end_copies();
    }
    if (in_registers) query.store(arrays_, warp_);
    for (int32_t i = kDim > 0 ? warp_ + kWarps : warp_; i < arrays_.count; i += kWarps) {
      begin_query_halves<kBfloat<kType>>(arrays_, i, query_at(i), key_dim());
    }
    if constexpr (copied(kType)) {
      clear_padding(key_dim(), 0);
      clear_padding(value_dim(), layout_.values);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t i = lane_ / 4 + 8 * r;
      rules_[r] = {};
      rules_[r].soft_cap = call_.params.soft_cap;
      if (i >= arrays_.count) continue;
      const int32_t row = row_number(i);
      rules_[r] = rule_of<kType>(call_, tile_, arrays_.query_scale[i], tile_.head + i - row * tile_.heads, row);
    }
  }
  // Rows in all slots have zeros between their last number and the next multiple of 16.
  __device__ void clear_padding(int32_t dim, int32_t offset) const {
    if (half_columns(dim) == dim) return;
    for (auto i = static_cast<int32_t>(threadIdx.x); i < call_.tiling.slots * kPageTokens; i += kThreads) {
      std::byte* row = slot(i / kPageTokens) + offset + i % kPageTokens * half_row_bytes(dim);
      *reinterpret_cast<uint4*>(row + 2 * dim) = uint4{};
    }
  }

  __device__ void begin_chunk() { clear_sums(largest_, total_, sums_); }

  // Computes the exponents of the warp's page and writes the largest of each query, then requests the next keys.
  __device__ void score(const PageGroup& group, PageScores& scores, const PageGroup& next, int32_t next_page) {
    wait_for_copies<1>();
    __syncwarp();
    if constexpr (!copied(kType)) {
      __syncthreads();
      decode(group, 0, call_.pages.key_row_bytes, key_dim());
      __syncthreads();
      copy(next, next_page, false);
      end_copies();
    }
    const int32_t number = group.begin + warp_;
    if (number < group.end) {
      const auto* queries = reinterpret_cast<const uint16_t*>(arrays_.queries);
      add_products<kBfloat<kType>, Code::kSmall>(queries, 0, arrays_.count, keys(warp_), key_dim(), scores);
      float* largest = at<float>(layout_.largest) + kQueriesMax * warp_ + lane_ / 4;
      const float upper = find_exponents<0, Code::kSmall>(rules_[0], number * kPageTokens, scores);
      if (lane_ % 4 == 0) largest[0] = upper;
      if (has_lower()) {
        const float lower = find_exponents<1, Code::kSmall>(rules_[1], number * kPageTokens, scores);
        if (lane_ % 4 == 0) largest[8] = lower;
      }
    }
    if constexpr (copied(kType)) {
      __syncwarp();
      copy(next, next_page, false);
      end_copies();
    } else {
      wait_for_copies<1>();
    }
    __syncthreads();
  }

  // Computes the weights and the numbers of the warp's page and waits for values.
  __device__ void weigh(const PageGroup& group, PageScores& scores, const PageGroup& next, int32_t next_page) {
    const int32_t count = group.end - group.begin, begin = (group.begin + warp_) * kPageTokens;
    float before[2] = {}, largest[2] = {};  // before the warp's page, and with it
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (r == 1 && !has_lower()) continue;
      const float* of_pages = at<float>(layout_.largest) + lane_ / 4 + 8 * r;
#pragma unroll 2
      for (int32_t i = 0; i < count; ++i) {
        if (i == warp_) before[r] = largest_[r];
        largest_[r] = fmaxf(of_pages[kQueriesMax * i], largest_[r]);
        if (i == warp_) largest[r] = largest_[r];
      }
    }
    if (warp_ < count) {
      PageWeights weights;
      float2* numbers = at<float2>(layout_.numbers) + kQueriesMax * warp_ + lane_ / 4;
      uint4* to = at<uint4>(layout_.weights) + warp_ * weights_parts(call_.tiling.queries) * kWarp + lane_;
      const float upper = find_exponentials<0, Code::kSmall>(rules_[0], begin, largest[0], scores);
      if (lane_ % 4 == 0) numbers[0] = make_float2(page_factor(before[0], largest[0]), upper);
      if (has_lower()) {
        const float lower = find_exponentials<1, Code::kSmall>(rules_[1], begin, largest[1], scores);
        if (lane_ % 4 == 0) numbers[8] = make_float2(page_factor(before[1], largest[1]), lower);
      }
      pack_weights<kBfloat<kType>>(scores, weights);
      to[0] = uint4{weights[0][0], weights[0][2], weights[1][0], weights[1][2]};
      if (has_lower()) to[kWarp] = uint4{weights[0][1], weights[0][3], weights[1][1], weights[1][3]};
    }
    if constexpr (copied(kType)) {
      wait_for_copies<1>();
    } else {
      decode(group, layout_.values, call_.pages.value_row_bytes, value_dim());
    }
    __syncthreads();
    if constexpr (!copied(kType)) {
      copy(next, next_page, true);
      end_copies();
    }
  }

  // Adds all pages of the group to the warp's dimensions.
  __device__ void add(const PageGroup& group) {
    const int32_t stride = half_stride(value_dim()), parts = weights_parts(call_.tiling.queries);
    const float2* numbers = at<float2>(layout_.numbers) + lane_ / 4;
    const uint4* from = at<uint4>(layout_.weights) + lane_;
#pragma unroll 1
    for (int32_t i = 0; i < group.end - group.begin; ++i) {
      const uint4 upper = from[i * parts * kWarp];
      const uint4 lower = has_lower() ? from[(i * parts + 1) * kWarp] : uint4{};
      const float2 of_upper = numbers[kQueriesMax * i];
      const float2 of_lower = has_lower() ? numbers[kQueriesMax * i + 8] : make_float2(1, 0);
      const PageWeights weights = {{upper.x, lower.x, upper.y, lower.y}, {upper.z, lower.z, upper.w, lower.w}};
      const float factor[2] = {of_upper.x, of_lower.x};
      add_weighted_values<kBfloat<kType>>(weights, factor, values(i), stride, column_, value_dim(), sums_);
      total_[0] = __fmaf_rn(total_[0], of_upper.x, of_upper.y);
      total_[1] = __fmaf_rn(total_[1], of_lower.x, of_lower.y);
    }
  }

  // Writes the chunk's sums as pieces, or merges them with those of the chunks before and writes the last ones.
  __device__ void end_chunk(int32_t chunk) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t i = lane_ / 4 + 8 * r;
      if (i >= arrays_.count) continue;
      const SeenPositions seen = rules_[r].seen;
      const int32_t begin = chunk * tile_.chunk, end = begin + tile_.chunk;
      if (seen.begin >= end || seen.end <= begin) continue;
      const int64_t query = query_number(i);
      if constexpr (kSplit) {
        const int32_t first = seen.begin == 0 ? 0 : seen.begin / tile_.chunk;
        const int64_t piece = query * kChunksMax + chunk - first;
        if (threadIdx.x % 4 == 0 && warp_ == 0) call_.pieces.numbers[piece] = make_float2(largest_[r], total_[r]);
        write(r, 1, call_.pieces.values + piece * value_dim());
      } else {
        join(r, begin <= seen.begin);
        if (end < seen.end) continue;
        const float sink = call_.params.sinks == nullptr ? -INFINITY : call_.params.sinks[query % call_.params.heads];
        const float factor = finish_factor(joined_largest_[r], joined_total_[r], sink);
#pragma unroll
        for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
          for (int k = 2 * r; k < 2 * r + 2; ++k) sums_[v][k] = joined_[v][k];
        }
        write(r, factor, call_.out + query * value_dim());
      }
    }
  }
  __device__ __forceinline__ void join(int r, bool first) {
    Joint joint{largest_[r], 0, 1};
    float total = total_[r];
    if (!first) {
      joint = joint_of(joined_largest_[r], largest_[r]);
      total = joined(joint.keep, joined_total_[r], joint.take, total);
    }
    joined_largest_[r] = joint.largest;
    joined_total_[r] = total;
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
      for (int k = 2 * r; k < 2 * r + 2; ++k) {
        joined_[v][k] = first ? sums_[v][k] : joined(joint.keep, joined_[v][k], joint.take, sums_[v][k]);
      }
    }
  }
  // Writes the sums of the queries' row r, times a factor.
  __device__ __forceinline__ void write(int r, float factor, float* to) const {
    const int32_t dim = value_dim();
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
      const int32_t column = column_ + 8 * v + lane_ % 4 * 2;
      const float2 two = make_float2(__fmul_rn(sums_[v][2 * r], factor), __fmul_rn(sums_[v][2 * r + 1], factor));
      if (dim % 2 == 0) {
        if (column < dim) *reinterpret_cast<float2*>(to + column) = two;
        continue;
      }
      if (column < dim) to[column] = two.x;
      if (column + 1 < dim) to[column + 1] = two.y;
    }
  }

  __device__ bool has_lower() const { return arrays_.count > 8; }

  static constexpr int32_t kNone = -1;

  const AttentionCall& call_;
  const Tile& tile_;
  const Layout& layout_;
  const int32_t warp_;
  const int32_t lane_;
  const int32_t column_;  // the first dimension of the warp's sums
  const int32_t chunk_pages_;
  const int32_t seen_end_;
  const int32_t page_end_;
  QueryArrays arrays_;  // only the queries and their scales
  ScoreRule rules_[2];
  float largest_[2];
  float total_[2];
  float sums_[kValueTiles][4];
  // Largest scores, totals and sums of the chunks before, if the block has all of them.
  float joined_largest_[2];
  float joined_total_[2];
  float joined_[kValueTiles][4];
};

// Places and page ids are written by copies and not by kernels, so they are there before the kernels before have ended.
template <KvType kType, bool kSplit, int kValueTiles, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocks) few_queries_kernel(AttentionCall call, Layout layout) {
  trigger_dependents();
  for_tiles_of_block(
      call, [&](const Tile& tile) { FewQueries<kType, kSplit, kValueTiles, kDim>(call, layout, tile).attend(); });
  wait_for_dependencies();
}

// Slots for chunks of `pages` pages: all of them if kBlocks blocks with them fit into a multiprocessor, or groups of
// about equal size. 0 if not even one fits. Each block takes 1 KiB in addition to what it requests.
template <class BytesOf>
int32_t choose_slots(int32_t pages, int64_t bytes_max, BytesOf bytes_of) {
  constexpr int64_t kReserved = 1024;
  const auto fitting = [&](int64_t blocks) {
    int32_t slots = kSlotsMax;
    while (slots > 0 && bytes_of(slots) > (bytes_max + kReserved) / blocks - kReserved) --slots;
    return slots;
  };
  int32_t most = fitting(kBlocks);
  if (most < std::min(2, pages)) most = fitting(1);
  if (most == 0) return 0;
  const int32_t groups = (pages + most - 1) / most;
  return (pages + groups - 1) / groups;
}

template <KvType kType, bool kSplit>
void start(LaunchQueue& stream, const AttentionCall& call, const Layout& layout, dim3 grid, int device) {
  const auto launch_kernel = [&]<int kValueTiles, int kDim>() {
    launch_large_dependent<few_queries_kernel<kType, kSplit, kValueTiles, kDim>>(device, grid, kThreads, layout.bytes,
                                                                                 stream, call, layout);
  };
  if (call.key_dim == 128 && call.value_dim == 128) return launch_kernel.template operator()<2, 128>();
  if (value_tiles(kType, call.value_dim) <= 2 * kWarps) return launch_kernel.template operator()<2, 0>();
  launch_kernel.template operator()<4, 0>();
}

template <KvType kType>
void start(LaunchQueue& stream, const AttentionCall& call, const Layout& layout, dim3 grid, int device) {
  if (grid.z > 1) return start<kType, true>(stream, call, layout, grid, device);
  start<kType, false>(stream, call, layout, grid, device);
}

}  // namespace

bool start_few_queries(LaunchQueue& stream, AttentionCall call, const KvView& kv, int32_t chunks, int device) {
  AttentionTiling& tiling = call.tiling;
  const int32_t slice_rows = call.rows.slice_rows_max;
  if (value_tiles(kv.type, kv.value_dim) == 0 || slice_rows == 0) return false;
  if (slice_rows > std::max(1, kSliceQueriesMax / tiling.group)) return false;
  if (copied(kv.type) && (kv.key_dim % 8 != 0 || kv.value_dim % 8 != 0)) return false;
  choose_tiles(kQueriesMax, slice_rows, tiling);
  const auto layout = [&](int32_t slots) { return layout_of(copied(kv.type), call, tiling.queries, slots); };
  const int32_t pages = chunk_positions(positions_seen(call.params, call.rows)) / kPageTokens;
  tiling.slots = choose_slots(pages, shared_bytes_max(device), [&](int32_t slots) { return layout(slots).bytes; });
  if (tiling.slots == 0) return false;
  const dim3 grid = grid_of(call, kv.kv_heads, chunks);
  switch (kv.type) {
    case KvType::kF16:
      start<KvType::kF16>(stream, call, layout(tiling.slots), grid, device);
      return true;
    case KvType::kBF16:
      start<KvType::kBF16>(stream, call, layout(tiling.slots), grid, device);
      return true;
    case KvType::kQ8_0:
      start<KvType::kQ8_0>(stream, call, layout(tiling.slots), grid, device);
      return true;
    case KvType::kF32:
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      break;
  }
  return false;
}

}  // namespace cairn::kernels::cuda
