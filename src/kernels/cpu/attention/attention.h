/// The pieces of attention of the CPU dispatch table: what attention_op.cpp puts together page by page.
///
/// All take a group of queries that read the same keys and values, so that a page is read once for all of them. What
/// one query gets does not depend on the others of its group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::cpu {

/// As cairn::kPageTokens.
inline constexpr int32_t kAttentionPage = 32;
/// As kSegmentTokens of attention_op.h.
inline constexpr int32_t kAttentionSegment = 512;
/// From one query's scores to the next one's: a segment (attention_op.h) and a cache line, so that the scores of many
/// queries for one page do not all fall into the same set of the L1 cache.
inline constexpr int32_t kScoreStride = kAttentionSegment + 16;

/// Of pages in pairs (kv_page.h), memory is asked for so many before its use, into the L2 cache: of the L1 cache's few
/// places for lines on their way, streams of decode would find none free.
inline constexpr int32_t kPagesAhead = 2;

/// Scores are multiplied by this before their exponentials are taken, as powers of 2.
inline constexpr float kLog2OfE = 1.44269504f;

/// Positions [lo, hi) of a segment, counted from its begin; empty if lo >= hi.
struct TokenRange {
  int32_t lo = 0;
  int32_t hi = 0;
  bool operator==(const TokenRange&) const = default;
};

/// Attention over pages whose numbers lie in pairs (kv_page.h), by products of int16: a processor adds up twice as many
/// of them at a time as of float32, and integer sums are exact in any order. A row of queries, or of keys of kI16, has
/// one scale, so that its Euclidean norm is kInt16Norm: no product of two rows leaves int32 then, whatever their
/// length. Rounding costs a score 1e-5 of the product of both norms, about what keys rounded to binary16 do.
struct PairAttention {
  /// queries[i] [key_dim] -> pairs as keys are in, at out + i * query_pairs(key_dim), filled up with zeros; n scales.
  void (*pair_queries)(const float* const* queries, int32_t n, int32_t key_dim, int32_t* out, float* scales);
  /// AttentionKernels::scores of a head's keys in a page and of what pair_queries made. A page's memory from `next` on,
  /// which will be read kPagesAhead pages later, is asked for on the way.
  void (*scores)(const std::byte* keys, int32_t key_dim, const int32_t* queries, const float* query_scales, int32_t n,
                 const std::byte* next, float* scores);
  /// sums[i * value_dim + d] = the sum over the tokens seen[i] of a segment, which lie in its pages [page_begin,
  /// page_end), of weights[i * kScoreStride + token] * the values, for i < n; values[page] are the head's in a page.
  /// The weights times the values' scales are rounded to int16 with one scale for each query. values[page +
  /// kPagesAhead] is asked for on the way.
  void (*sum_values)(const std::byte* const* values, int32_t value_dim, float* weights, const TokenRange* seen,
                     int32_t page_begin, int32_t page_end, int32_t n, float* sums);
};

struct Int16Attention {
  /// The scale of a row [dim] of kI16. A NaN or an infinity makes it one.
  float (*key_scale)(const float* x, int32_t dim);
  float (*value_scale)(const float* x, int32_t dim);
  /// x [n], of a row with that scale, to int16, to nearest.
  void (*round)(const float* x, int32_t n, float scale, int16_t* out);
  PairAttention int16;  ///< over pages of KvType::kI16
  PairAttention q8_0;   ///< of KvType::kQ8_0Pairs
};
/// Norm of a row of keys or queries, just below what one element can be.
inline constexpr float kInt16Norm = 32700;
/// Largest value, and largest sum and largest single one of a segment's weights: 512 products stay within int32, also
/// when each weight is rounded up.
inline constexpr float kInt16Value = 4095;
inline constexpr float kInt16WeightSum = 523000;
inline constexpr float kInt16Weight = 32700;
/// Of values of eight bits 512 products stay within int32 whatever their sum is.
inline constexpr float kQ8WeightSum = kAttentionSegment * kInt16Weight;
static_assert(int64_t{127} * kAttentionSegment * 32701 <= INT32_MAX);
/// Pairs of a key's row, and of a query's with what fills it up.
constexpr int32_t key_pairs(int32_t key_dim) { return (key_dim + 1) / 2; }
constexpr int64_t query_pairs(int32_t key_dim) { return (key_pairs(key_dim) + 15) / 16 * 16; }
/// Bytes from a head's keys or values in a page to their scales.
constexpr int64_t key_scales_at(int32_t key_dim) { return int64_t{4} * kAttentionPage * key_pairs(key_dim); }
constexpr int64_t value_scales_at(int32_t value_dim) { return int64_t{2} * kAttentionPage * value_dim; }
/// As kKvBlock and kKvPieceScales of kv_page.h.
inline constexpr int32_t kQ8Dims = 32;
inline constexpr int64_t kQ8ScalesAt = int64_t{kQ8Dims} * kAttentionPage;

struct AttentionKernels {
  /// A head's keys or values in a page (kv_page.h) to float32 in the same order: keys [key_dim, kAttentionPage], values
  /// [kAttentionPage, value_dim]. On the way as many bytes from `next` on are asked for from memory; they are what
  /// will be decoded next, and must be an address of the same memory.
  void (*decode_half)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
  void (*decode_bf16)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
  void (*decode_q8_0_keys)(const std::byte* page, int32_t key_dim, const std::byte* next, float* out);
  void (*decode_q8_0_values)(const std::byte* page, int32_t value_dim, const std::byte* next, float* out);
  /// A row of `dim` elements (kv_page.h) to float32.
  void (*decode_half_row)(const std::byte* row, int32_t dim, float* out);
  void (*decode_bf16_row)(const std::byte* row, int32_t dim, float* out);
  void (*decode_q8_0_row)(const std::byte* row, int32_t dim, float* out);
  /// scores[i * kScoreStride + t] = queries[i] . key t, for i < n and all t of a page; keys [key_dim, kAttentionPage].
  void (*scores)(const float* keys, int32_t key_dim, const float* const* queries, int32_t n, float* scores);
  /// Over scores [lo, hi), lo < hi: each times scale, then cap * tanh(score / cap) if cap > 0; then its exponential
  /// relative to the largest, which goes to *largest times kLog2OfE, and their sum to *sum. `scores` has room up to the
  /// next multiple of kAttentionPage; what of a page is outside [lo, hi) is read but counts for nothing. scale > 0.
  void (*exponentials)(float* scores, int32_t lo, int32_t hi, float scale, float cap, float* largest, float* sum);
  /// sums[i * value_dim + d] += sum over t in [lo, hi), in order, of weights[i * kScoreStride + t] * values[t * stride
  /// + d], for i < n.
  void (*add_values)(const float* values, int32_t stride, int32_t value_dim, const float* weights, int32_t lo,
                     int32_t hi, int32_t n, float* sums);
  /// Sum of max(0, x[i]) * weights[i]; n is a multiple of kAttentionPage.
  float (*relu_dot)(const float* x, const float* weights, int32_t n);
  /// Joins to a softmax-weighted sum (largest, sum, values [value_dim]) another one over other positions. One of both
  /// may be empty: largest -infinity and zeros.
  void (*merge)(float* largest, float* sum, float* values, float other_largest, float other_sum,
                const float* other_values, int32_t value_dim);
  /// out = values / (sum + e^(sink - the largest score)); a sink of -infinity is none.
  void (*finish)(float largest, float sum, const float* values, float sink, int32_t value_dim, float* out);
  /// Null where int16 is no faster.
  const Int16Attention* int16;
};

extern const AttentionKernels kGenericAttention;
#if defined(__x86_64__)
extern const AttentionKernels kAvx2Attention;
extern const AttentionKernels kAvx512Attention;
#elif defined(__aarch64__)
extern const AttentionKernels kNeonAttention;
#endif

}  // namespace cairn::cpu
