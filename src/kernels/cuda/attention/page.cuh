/// Attention over one page of keys and values, by a block of threads for all of its queries at once.
///
/// A query's results are computed in an order that does not depend on the other queries or on their number: a score is
/// four sums of every fourth group of four dimensions, added in pairs; the page's exponentials are added as a tree;
/// values are added position by position. Products and sums that a compiler could fuse are written with intrinsics.
#pragma once

#include "kernels/cuda/attention/kv_row.cuh"
#include "kernels/cuda/attention/split_plan.h"
#include "kernels/cuda/elementwise/reduce.cuh"

namespace cairn::kernels::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionWarps = kAttentionThreads / kWarp;
static_assert(kPageTokens == kWarp && kAttentionWarps * 8 == kPageTokens);

CAIRN_HOST_DEVICE constexpr int32_t round_up(int32_t n, int32_t to) { return (n + to - 1) / to * to; }
/// Columns of a query or a row of keys in shared memory, padded with zeros; and of values and their sums.
CAIRN_HOST_DEVICE constexpr int32_t key_columns(int32_t key_dim) { return round_up(key_dim, 16); }
CAIRN_HOST_DEVICE constexpr int32_t value_columns(int32_t value_dim) { return round_up(value_dim, 4); }
/// Floats from a row to the next. For the tile: eight consecutive rows are in different banks.
CAIRN_HOST_DEVICE constexpr int32_t tile_stride(int32_t columns) { return round_up(columns, 16) + 4; }
CAIRN_HOST_DEVICE constexpr int32_t weights_stride(int32_t queries) { return queries + 4; }

/// Arrays in shared memory for a block's queries, whose number is a multiple of 4.
struct QueryArrays {
  int32_t count;          // number of queries, including padding
  float* queries;         // [count, key_columns], or float16 (mma_page.cuh)
  float* query_scale;     // [count]: factor of float16 queries
  float* sums;            // [count, value_columns]: sums of the chunk so far, relative to `largest`
  float* weights;         // [kPageTokens, weights_stride]: scores of a page, then weights
  float* largest;         // [count]: largest score of the chunk so far
  float* total;           // [count]: sum of the exponentials
  float* factor;          // [count]: factor on `sums` before the page's values are added
  float* joined_largest;  // [count]: largest score of the chunks before
  float* joined_total;    // [count]: sum of the exponentials of the chunks before
  float* keep;            // [count]: see Joint
  float* take;            // [count]
  float* finish;          // [count]: final factor on the result
};
inline constexpr int32_t kNumbersOfQuery = 9;

/// Decodes kPageTokens rows, of which row_at(i) is the address of the i-th, to float32 [kPageTokens, columns].
template <KvType kType, class RowAt>
__device__ void decode_page(const RowAt& row_at, int32_t dim, int32_t columns, float* tile) {
  constexpr int kRows = kPageTokens / kAttentionWarps;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int32_t stride = tile_stride(columns);
  for (int32_t d = 4 * lane; d < columns; d += 4 * kWarp) {
    float4 fours[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      fours[i] = four_of_row<kType>(row_at(warp + i * kAttentionWarps), d, dim);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      *reinterpret_cast<float4*>(tile + (warp + i * kAttentionWarps) * stride + d) = fours[i];
    }
  }
}

__device__ inline float add_product(float sum, const float4& a, const float4& b) {
  sum = __fmaf_rn(a.x, b.x, sum);
  sum = __fmaf_rn(a.y, b.y, sum);
  sum = __fmaf_rn(a.z, b.z, sum);
  return __fmaf_rn(a.w, b.w, sum);
}

/// Products of queries [query, query + kQueries) and all keys of the tile, written to arrays.weights. Each warp has
/// eight keys, and four lanes share one.
template <int kQueries>
__device__ void score_queries(const QueryArrays& arrays, int32_t query, const float* tile, int32_t columns) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int part = lane / 8, token = warp * 8 + lane % 8;
  const float* key = tile + token * tile_stride(columns) + 4 * part;
  const float* queries = arrays.queries + query * columns + 4 * part;
  float sums[kQueries] = {};
#pragma unroll 2
  for (int32_t d = 0; d < columns; d += 16) {
    const float4 k = *reinterpret_cast<const float4*>(key + d);
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      sums[i] = add_product(sums[i], *reinterpret_cast<const float4*>(queries + i * columns + d), k);
    }
  }
  float* weights = arrays.weights + token * weights_stride(arrays.count) + query;
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    float sum = sums[i];
    sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 8));
    sum = __fadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, 16));
    if (i % 4 == part) weights[i] = sum;
  }
}

__device__ inline void score_page(const QueryArrays& arrays, const float* tile, int32_t columns) {
  int32_t query = 0;
  for (; query + 8 <= arrays.count; query += 8) score_queries<8>(arrays, query, tile, columns);
  if (query < arrays.count) score_queries<4>(arrays, query, tile, columns);
}

/// The rule by which a query's scores become exponents.
struct ScoreRule {
  float scale;
  float soft_cap;
  float slope;
  int32_t position;  // position of the query
  SeenPositions seen;
};

/// The exponent of a query's product with the key of a position; -INFINITY if the position is masked.
__device__ __forceinline__ float score_of(const ScoreRule& rule, float product, int32_t position) {
  float score = __fmul_rn(product, rule.scale);
  if (rule.soft_cap > 0) score = __fmul_rn(tanhf(score / rule.soft_cap), rule.soft_cap);
  const int32_t apart = position > rule.position ? position - rule.position : rule.position - position;
  if (rule.slope != 0) score = __fmaf_rn(-rule.slope, static_cast<float>(apart), score);
  return position >= rule.seen.begin && position < rule.seen.end ? score : -INFINITY;
}

/// Turns the scores of one query for the page that begins at position `begin`, one per lane, into weights, and updates
/// its largest score, total and factor. Masked positions have weight -1.
__device__ inline void weigh_query(const QueryArrays& arrays, int32_t query, const ScoreRule& rule, int32_t begin) {
  const int lane = threadIdx.x % kWarp;
  float& weight = arrays.weights[lane * weights_stride(arrays.count) + query];
  const int32_t position = begin + lane;
  const bool seen = position >= rule.seen.begin && position < rule.seen.end;
  if (begin >= rule.seen.end || begin + kPageTokens <= rule.seen.begin) {
    weight = -1;
    if (lane == 0) arrays.factor[query] = 1;
    return;
  }
  const float before = arrays.largest[query];
  const float score = score_of(rule, weight, position);
  const float largest = fmaxf(before, warp_max(score));
  const float exponential = seen ? expf(__fsub_rn(score, largest)) : 0.0f;
  const float total = warp_sum(exponential);
  weight = seen ? exponential : -1.0f;
  __syncwarp();  // all lanes have read `before`
  if (lane == 0) {
    const float factor = expf(__fsub_rn(before, largest));
    arrays.factor[query] = factor;
    arrays.total[query] = __fmaf_rn(arrays.total[query], factor, total);
    arrays.largest[query] = largest;
  }
}

template <bool kAll>
__device__ float add_weighted(float sum, float weight, float value) {
  return kAll || !(weight < 0) ? __fmaf_rn(weight, value, sum) : sum;
}

/// Adds the first `columns` of the tile's rows [begin, end), `stride` apart, to the sums: a thread has four queries and
/// kDims dimensions at a time. With kAll every query sees all of these rows.
template <int kDims, bool kAll>
__device__ void add_values(const QueryArrays& arrays, const float* tile, int32_t stride, int32_t columns, int32_t begin,
                           int32_t end) {
  const int32_t groups = columns / kDims, of_weights = weights_stride(arrays.count);
  for (int32_t item = threadIdx.x; item < arrays.count / 4 * groups; item += kAttentionThreads) {
    const int32_t query = item / groups * 4, d = item % groups * kDims;
    float* to = arrays.sums + query * columns + d;
    float sums[4][kDims];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int k = 0; k < kDims; ++k) sums[i][k] = __fmul_rn(to[i * columns + k], arrays.factor[query + i]);
    }
#pragma unroll kDims == 1 ? 8 : 4
    for (int32_t t = begin; t < end; ++t) {
      const float4 weight = *reinterpret_cast<const float4*>(arrays.weights + t * of_weights + query);
      float values[kDims];
      if constexpr (kDims == 4) {
        const float4 four = *reinterpret_cast<const float4*>(tile + t * stride + d);
        values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
      } else {
        values[0] = tile[t * stride + d];
      }
#pragma unroll
      for (int k = 0; k < kDims; ++k) {
        sums[0][k] = add_weighted<kAll>(sums[0][k], weight.x, values[k]);
        sums[1][k] = add_weighted<kAll>(sums[1][k], weight.y, values[k]);
        sums[2][k] = add_weighted<kAll>(sums[2][k], weight.z, values[k]);
        sums[3][k] = add_weighted<kAll>(sums[3][k], weight.w, values[k]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int k = 0; k < kDims; ++k) to[i * columns + k] = sums[i][k];
    }
  }
}

/// `all`: whether every query sees all of the page.
__device__ inline void add_page(const QueryArrays& arrays, const float* tile, int32_t stride, int32_t columns,
                                int32_t begin, int32_t end, bool all) {
  // Four dimensions per thread need fewer reads; one per thread keeps all threads busy.
  if (arrays.count / 4 * (columns / 4) >= kAttentionThreads) {
    if (all) return add_values<4, true>(arrays, tile, stride, columns, begin, end);
    return add_values<4, false>(arrays, tile, stride, columns, begin, end);
  }
  if (all) return add_values<1, true>(arrays, tile, stride, columns, begin, end);
  add_values<1, false>(arrays, tile, stride, columns, begin, end);
}

}  // namespace cairn::kernels::cuda
