/// Attention kernels of the CPU dispatch table, which attention_op.cpp calls page by page.
///
/// All take a group of queries that read the same keys and values, so that a page is read once for all of them. A
/// query's result does not depend on the others of its group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cpu {

/// Tokens of a KV page: the same as kernels::kPageTokens.
inline constexpr int32_t kAttentionPage = 32;
/// Tokens of a segment: the same as kSegmentTokens of attention_op.h.
inline constexpr int32_t kAttentionSegment = 512;
/// Floats from one query's scores to the next one's: a segment (attention_op.h) and a cache line, so that the scores of
/// many queries for one page do not all fall into the same set of the L1 cache.
inline constexpr int32_t kScoreStride = kAttentionSegment + 16;

/// How many pages ahead pages of pairs (kv_page.h) are prefetched, into the L2 cache: decoding streams would find no
/// free line-fill buffer of the L1 cache.
inline constexpr int32_t kPagesAhead = 2;

/// Factor on scores before their exponentials are taken, as powers of 2.
inline constexpr float kLog2OfE = 1.44269504f;

/// Positions [lo, hi) of a segment, counted from its beginning; empty if lo >= hi.
struct TokenRange {
  int32_t lo = 0;
  int32_t hi = 0;
  bool operator==(const TokenRange&) const = default;
};

/// Attention over pages whose numbers lie in pairs (kv_page.h), by products of int16: a processor adds twice as many of
/// them per instruction as of float32, and integer sums are exact in any order. A row of queries, or of keys of kI16,
/// has one scale, chosen so that its Euclidean norm is kInt16Norm: so no product of two rows overflows int32, whatever
/// their length. Rounding costs a score 1e-5 of the product of both norms, about as much as keys rounded to binary16
/// do.
struct PairAttention {
  /// Converts queries[i] [key_dim] to pairs in the order of the keys, at out + i * query_pairs(key_dim), padded with
  /// zeros; writes n scales.
  void (*pair_queries)(const float* const* queries, int32_t n, int32_t key_dim, int32_t* out, float* scales);
  /// AttentionKernels::scores of a head's keys in a page and of the result of pair_queries. On the way it prefetches
  /// the memory from `next` on, a page that is read kPagesAhead pages later.
  void (*scores)(const std::byte* keys, int32_t key_dim, const int32_t* queries, const float* query_scales, int32_t n,
                 const std::byte* next, float* scores);
  /// sums[i * value_dim + d] = the sum over the tokens seen[i] of a segment, which lie in its pages [page_begin,
  /// page_end), of weights[i * kScoreStride + token] * the values, for i < n; values[page] are the head's values in a
  /// page. The weights times the values' scales are rounded to int16 with one scale for each query. On the way it
  /// prefetches values[page + kPagesAhead].
  void (*sum_values)(const std::byte* const* values, int32_t value_dim, float* weights, const TokenRange* seen,
                     int32_t page_begin, int32_t page_end, int32_t n, float* sums);
};

struct Int16Attention {
  /// The scale of a row [dim] of kI16. A NaN or an infinity in the row makes the scale one.
  float (*key_scale)(const float* x, int32_t dim);
  float (*value_scale)(const float* x, int32_t dim);
  /// Rounds x [n], part of a row with that scale, to the nearest int16.
  void (*round)(const float* x, int32_t n, float scale, int16_t* out);
  PairAttention int16;  ///< for pages of KvType::kI16
  PairAttention q8_0;   ///< for pages of KvType::kQ8_0Pairs
};
/// Norm of a row of keys or queries as int16, just below the largest value of one element.
inline constexpr float kInt16Norm = 32700;
/// Bounds of a segment's values, of the sum of its weights and of a single weight as int16: 512 products fit into
/// int32, even if each weight is rounded up.
inline constexpr float kInt16Value = 4095;
inline constexpr float kInt16WeightSum = 523000;
inline constexpr float kInt16Weight = 32700;
/// Bound of the sum of weights for 8-bit values, whose 512 products fit into int32 whatever that sum is.
inline constexpr float kQ8WeightSum = kAttentionSegment * kInt16Weight;
static_assert(int64_t{127} * kAttentionSegment * 32701 <= INT32_MAX);
/// Number of pairs of a key's row, and of a query's row with its padding.
constexpr int32_t key_pairs(int32_t key_dim) { return (key_dim + 1) / 2; }
constexpr int64_t query_pairs(int32_t key_dim) { return (key_pairs(key_dim) + 15) / 16 * 16; }
/// Offset in bytes of the scales from a head's keys or values in a page.
constexpr int64_t key_scales_at(int32_t key_dim) { return int64_t{4} * kAttentionPage * key_pairs(key_dim); }
constexpr int64_t value_scales_at(int32_t value_dim) { return int64_t{2} * kAttentionPage * value_dim; }
/// Dimensions of a piece, and offset of its scales: the same as kKvBlock and kKvPieceScales of kv_page.h.
inline constexpr int32_t kQ8Dims = 32;
inline constexpr int64_t kQ8ScalesAt = int64_t{kQ8Dims} * kAttentionPage;

struct AttentionKernels {
  /// Decode a head's keys or values in a page (kv_page.h) to float32 in the same order: keys [key_dim, kAttentionPage],
  /// values [kAttentionPage, value_dim]. On the way they prefetch as many bytes from `next` on, which are decoded next;
  /// `next` must be an address of the same memory.
  void (*decode_half)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
  void (*decode_bf16)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
  void (*decode_q8_0_keys)(const std::byte* page, int32_t key_dim, const std::byte* next, float* out);
  void (*decode_q8_0_values)(const std::byte* page, int32_t value_dim, const std::byte* next, float* out);
  /// Decode a row of `dim` elements (kv_page.h) to float32.
  void (*decode_half_row)(const std::byte* row, int32_t dim, float* out);
  void (*decode_bf16_row)(const std::byte* row, int32_t dim, float* out);
  void (*decode_q8_0_row)(const std::byte* row, int32_t dim, float* out);
  /// scores[i * kScoreStride + t] = the dot product of queries[i] and key t, for i < n and all t of a page; keys
  /// [key_dim, kAttentionPage].
  void (*scores)(const float* keys, int32_t key_dim, const float* const* queries, int32_t n, float* scores);
  /// Softmax of scores [lo, hi), lo < hi, without its division: each is multiplied by `scale`, then softcapped as cap *
  /// tanh(score / cap) if cap > 0; then it is replaced by its exponential relative to the largest score. Writes the
  /// largest times kLog2OfE to *largest, and the exponentials' sum to *sum. `scores` has room up to the next multiple
  /// of kAttentionPage; scores of a page outside [lo, hi) are read but ignored. scale > 0.
  void (*exponentials)(float* scores, int32_t lo, int32_t hi, float scale, float cap, float* largest, float* sum);
  /// sums[i * value_dim + d] += sum over t in [lo, hi), in order, of weights[i * kScoreStride + t] * values[t * stride
  /// + d], for i < n.
  void (*add_values)(const float* values, int32_t stride, int32_t value_dim, const float* weights, int32_t lo,
                     int32_t hi, int32_t n, float* sums);
  /// Sum of max(0, x[i]) * weights[i]; n is a multiple of kAttentionPage.
  float (*relu_dot)(const float* x, const float* weights, int32_t n);
  /// Merges one softmax-weighted sum (largest, sum, values [value_dim]) with another one over other positions. Either
  /// may be empty: largest -infinity and zeros.
  void (*merge)(float* largest, float* sum, float* values, float other_largest, float other_sum,
                const float* other_values, int32_t value_dim);
  /// out = values / (sum + e^(sink - the largest score)); a sink of -infinity means no sink.
  void (*finish)(float largest, float sum, const float* values, float sink, int32_t value_dim, float* out);
  /// Null if int16 is no faster on this instruction set.
  const Int16Attention* int16;
};

extern const AttentionKernels kGenericAttention;
#if defined(__x86_64__)
extern const AttentionKernels kAvx2Attention;
extern const AttentionKernels kAvx512Attention;
#elif defined(__aarch64__)
extern const AttentionKernels kNeonAttention;
#endif

}  // namespace cairn::kernels::cpu
