/// Attention over one page on the tensor cores with weights and sums in registers: a warp has 16 of the block's queries
/// and some or all dimensions of their values. Queries, keys, weights and values are 16-bit numbers in the layout of
/// mma_page.cuh.
///
/// A query's results are computed in an order that does not depend on the other queries: a page's exponentials are
/// added by four lanes, every fourth pair of positions in ascending order, and then in pairs of lanes.
#pragma once

#include "kernels/cuda/attention/mma_page.cuh"

namespace cairn::kernels::cuda {

/// Tiles of eight keys of a page.
inline constexpr int kKeyTiles = kPageTokens / 8;
/// A lane's part of the scores, then exponentials, of 16 queries and a page: element i of tile n is that of query g +
/// i / 2 * 8 and position 8 n + 2 t + i % 2, for lane 4 g + t.
using PageScores = float[kKeyTiles][4];
/// A lane's part of the exponentials in 16 bits, as a product with the page's values reads them.
using PageWeights = uint32_t[kKeyTiles / 2][4];

/// Whether loops are unrolled. A kernel that runs each of its instructions once or twice waits most of the time for the
/// instructions themselves, so it has few of them.
enum class Code { kFast, kSmall };

/// Adds the products of queries [first, first + 16) of `count` and a page's keys. Queries beyond the last repeat it.
template <bool kBfloat, Code kCode>
__device__ __forceinline__ void add_products(const uint16_t* queries, int32_t first, int32_t count,
                                             const uint16_t* keys, int32_t dim, PageScores& scores) {
  const int32_t stride = half_stride(dim), lane = threadIdx.x % kWarp, matrix = lane / 8, row = lane % 8;
  const uint16_t* query = queries + min(first + row + matrix % 2 * 8, count - 1) * stride + matrix / 2 * 8;
  const uint16_t* key = keys + (matrix / 2 * 8 + row) * stride + matrix % 2 * 8;
  const auto add = [&](int32_t d) {
    uint32_t a[4];
    load_matrices<false>(query + d, a);
#pragma unroll
    for (int n = 0; n < kKeyTiles; n += 2) {
      uint32_t b[4];
      load_matrices<false>(key + n * 8 * stride + d, b);
      multiply_halves<kBfloat>(a, {b[0], b[1]}, scores[n]);
      multiply_halves<kBfloat>(a, {b[2], b[3]}, scores[n + 1]);
    }
  };
  if constexpr (kCode == Code::kSmall) {
#pragma unroll 2
    for (int32_t d = 0; d < half_columns(dim); d += 16) add(d);
  } else {
    for (int32_t d = 0; d < half_columns(dim); d += 16) add(d);
  }
}

/// Calls f(position, score) for the scores of row g + 8 kRow in ascending order of their positions.
template <int kRow, Code kCode, class F>
__device__ __forceinline__ void for_scores_of_row(int32_t begin, PageScores& scores, F f) {
  int32_t position = begin + static_cast<int32_t>(threadIdx.x % 4) * 2;
  // The tiles move on in each step, so that the loop can be one that is not unrolled; if it is, that costs nothing.
#pragma unroll(kCode == Code::kSmall ? 1 : kKeyTiles)
  for (int n = 0; n < kKeyTiles; ++n, position += 8) {
    float two[2] = {scores[0][2 * kRow], scores[0][2 * kRow + 1]};
#pragma unroll
    for (int i = 0; i < 2; ++i) f(position + i, two[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int m = 1; m < kKeyTiles; ++m) scores[m - 1][2 * kRow + i] = scores[m][2 * kRow + i];
      scores[kKeyTiles - 1][2 * kRow + i] = two[i];
    }
  }
}

/// Turns the products of row g + 8 kRow with the page that begins at position `begin` into exponents, -INFINITY for
/// positions that it does not see; returns the largest. With kPlain the row sees the whole page, and the rule has only
/// a scale.
template <int kRow, Code kCode, bool kPlain = false>
__device__ __forceinline__ float find_exponents(const ScoreRule& rule, int32_t begin, PageScores& scores) {
  float largest = -INFINITY;
  const auto apply = [&](const ScoreRule& to_all) {
    for_scores_of_row<kRow, kCode>(begin, scores, [&](int32_t position, float& score) {
      score = kPlain ? __fmul_rn(score, to_all.scale) : score_of(to_all, score, position);
      largest = fmaxf(largest, score);
    });
  };
  // A rule without a soft cap has a loop of its own, so that there is no branch for every score.
  if (!kPlain && rule.soft_cap > 0) {
    apply(rule);
  } else {
    ScoreRule uncapped = rule;
    uncapped.soft_cap = 0;
    apply(uncapped);
  }
#pragma unroll
  for (int apart = 1; apart < 4; apart *= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, apart));
  return largest;
}

/// Turns exponents into exponentials relative to `largest`, 0 for positions that the row does not see; returns their
/// sum.
template <int kRow, Code kCode, bool kPlain = false>
__device__ __forceinline__ float find_exponentials(const ScoreRule& rule, int32_t begin, float largest,
                                                   PageScores& scores) {
  float total = 0;
  for_scores_of_row<kRow, kCode>(begin, scores, [&](int32_t position, float& score) {
    const bool seen = kPlain || (position >= rule.seen.begin && position < rule.seen.end);
    score = seen ? expf(__fsub_rn(score, largest)) : 0.0f;
    total = __fadd_rn(total, score);
  });
#pragma unroll
  for (int apart = 1; apart < 4; apart *= 2) total = __fadd_rn(total, __shfl_xor_sync(kAllLanes, total, apart));
  return total;
}

/// The factor on sums relative to the largest score before a page, `before`, that makes them relative to the largest
/// with it.
__device__ __forceinline__ float page_factor(float before, float largest) {
  // Both are equal, so that the factor is 1, also as long as nothing has been seen.
  return before == largest ? 1.0f : expf(__fsub_rn(before, largest));
}

template <bool kBfloat>
__device__ __forceinline__ void pack_weights(const PageScores& scores, PageWeights& weights) {
#pragma unroll
  for (int k = 0; k < kKeyTiles / 2; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* two = scores[2 * k + i / 2] + i % 2 * 2;
      weights[k][i] = pack_halves<kBfloat>(two[0], two[1]);
    }
  }
}

/// Adds a page's values, rows `stride` apart, to sums of 8 kValueTiles dimensions from `column` on.
template <bool kBfloat, int kValueTiles>
__device__ __forceinline__ void add_weighted_values(const PageWeights& weights, const float (&factor)[2],
                                                    const uint16_t* values, int32_t stride, int32_t column, int32_t dim,
                                                    float (&sums)[kValueTiles][4]) {
  // Skipped for most pages, which have no score larger than those before.
  if (__ballot_sync(kAllLanes, factor[0] != 1 || factor[1] != 1) != 0) {
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[v][i] = __fmul_rn(sums[v][i], factor[i / 2]);
    }
  }
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const int32_t matrix = lane / 8, row = lane % 8;
  const uint16_t* value = values + (matrix % 2 * 8 + row) * stride + matrix / 2 * 8 + column;
#pragma unroll
  for (int v = 0; v < kValueTiles; v += 2) {
    if (column + 8 * v < half_columns(dim)) {
#pragma unroll
      for (int k = 0; k < kKeyTiles / 2; ++k) {
        uint32_t b[4];
        load_matrices<true>(value + 16 * k * stride + 8 * v, b);
        multiply_halves<kBfloat>(weights[k], {b[0], b[1]}, sums[v]);
        multiply_halves<kBfloat>(weights[k], {b[2], b[3]}, sums[v + 1]);
      }
    }
  }
}

/// Sets what a lane has of its two queries to what it is when a chunk begins: the largest scores so far, the sums of
/// exponentials, and the sums of values.
template <int kValueTiles>
__device__ __forceinline__ void clear_sums(float (&largest)[2], float (&total)[2], float (&sums)[kValueTiles][4]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    largest[r] = -INFINITY;
    total[r] = 0;
  }
#pragma unroll
  for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[v][i] = 0;
  }
}

/// Sums of queries [first, first + 16) and 8 kValueTiles dimensions of values from `column` on, a multiple of 16.
template <bool kBfloat, int kValueTiles>
class WarpSums {
 public:
  /// rule_of(query) is the rule of the block's queries, including those that are padding and see nothing.
  template <class RuleOf>
  __device__ WarpSums(const QueryArrays& arrays, int32_t first, int32_t column, RuleOf rule_of)
      : first_(first), column_(column), count_(arrays.count), lane_(threadIdx.x % kWarp) {
#pragma unroll
    for (int r = 0; r < 2; ++r) rules_[r] = rule_of(first_ + lane_ / 4 + 8 * r);
    begin();
  }
  /// Starts a chunk.
  __device__ void begin() { clear_sums(largest_, total_, sums_); }

  /// Computes the weights of a page of which all queries see `seen`, from its scores in arrays.weights, where
  /// score_page_halves writes them.
  __device__ void take_scores(const QueryArrays& arrays, SeenPositions seen, int32_t begin) {
    PageScores scores;
    const int32_t stride = weights_stride(count_);
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t query = min(first_ + lane_ / 4 + i / 2 * 8, count_ - 1);
        scores[n][i] = arrays.weights[(8 * n + lane_ % 4 * 2 + i % 2) * stride + query];
      }
    }
    rules_[0].seen = rules_[1].seen = seen;
    weigh(scores, begin);
  }

  /// Adds the page's values, rows `stride` apart.
  __device__ void add_page(const uint16_t* values, int32_t stride, int32_t dim) {
    if (first_ >= count_) return;
    add_weighted_values<kBfloat>(weights_, factor_, values, stride, column_, dim, sums_);
  }

  /// Writes the sums, largest scores and totals to `arrays`, at a chunk's end.
  __device__ void store(const QueryArrays& arrays, int32_t dim) const {
    const int32_t columns = value_columns(dim), g = lane_ / 4, t = lane_ % 4;
#pragma unroll
    for (int v = 0; v < kValueTiles; ++v) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t column = column_ + 8 * v + 2 * t + i % 2, query = first_ + g + i / 2 * 8;
        if (column < columns && query < count_) arrays.sums[query * columns + column] = sums_[v][i];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int32_t query = first_ + g + 8 * r;
      if (t != 0 || column_ != 0 || query >= count_) continue;
      arrays.largest[query] = largest_[r];
      arrays.total[query] = total_[r];
    }
  }

 private:
  __device__ __forceinline__ void weigh(PageScores& scores, int32_t begin) {
    weigh_row<0>(scores, begin);
    weigh_row<1>(scores, begin);
    pack_weights<kBfloat>(scores, weights_);
  }
  template <int kRow>
  __device__ __forceinline__ void weigh_row(PageScores& scores, int32_t begin) {
    const float before = largest_[kRow];
    const float largest = fmaxf(find_exponents<kRow, Code::kFast>(rules_[kRow], begin, scores), before);
    const float total = find_exponentials<kRow, Code::kFast>(rules_[kRow], begin, largest, scores);
    factor_[kRow] = page_factor(before, largest);
    total_[kRow] = __fmaf_rn(total_[kRow], factor_[kRow], total);
    largest_[kRow] = largest;
  }

  int32_t first_;
  int32_t column_;
  int32_t count_;
  int32_t lane_;
  ScoreRule rules_[2];
  float largest_[2];
  float total_[2];
  float factor_[2];
  PageWeights weights_;
  float sums_[kValueTiles][4];
};

}  // namespace cairn::kernels::cuda
