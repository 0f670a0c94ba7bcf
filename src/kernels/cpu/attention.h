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
/// From one query's scores to the next one's: a segment (attention_op.h) and a cache line, so that the scores of many
/// queries for one page do not all fall into the same set of the L1 cache.
inline constexpr int32_t kScoreStride = 512 + 16;

/// Scores are multiplied by this before their exponentials are taken, as powers of 2.
inline constexpr float kLog2OfE = 1.44269504f;

struct AttentionKernels {
  /// A head's keys or values in a page (kv_page.h) to float32 in the same order: keys [key_dim, kAttentionPage], values
  /// [kAttentionPage, value_dim]. On the way as many bytes from `next` on are asked for from memory; they are what
  /// will be decoded next, and must be an address of the same memory.
  void (*decode_half)(const std::byte* page, int32_t dim, const std::byte* next, float* out);
  void (*decode_q8_0_keys)(const std::byte* page, int32_t key_dim, const std::byte* next, float* out);
  void (*decode_q8_0_values)(const std::byte* page, int32_t value_dim, const std::byte* next, float* out);
  /// A row of `dim` elements (kv_page.h) to float32.
  void (*decode_half_row)(const std::byte* row, int32_t dim, float* out);
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
};

extern const AttentionKernels kGenericAttention;
#if defined(__x86_64__)
extern const AttentionKernels kAvx2Attention;
extern const AttentionKernels kAvx512Attention;
#elif defined(__aarch64__)
extern const AttentionKernels kNeonAttention;
#endif

}  // namespace cairn::cpu
