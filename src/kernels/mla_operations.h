/// Attention where one row of a position is key and value for all heads (MLA), and the choice of rows that a query
/// reads (sparse attention). Part of the interface of kernels/backend.h.
///
/// Rows are stored whole, key_dim elements of a KvView with one KV head and value_dim 0. A query at position p sees
/// rows [0, kv_rows(p + 1, tokens_per_row)) of a view. Slices follow each other as in a batch; those of several views
/// in one call differ in their pages only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kv.h"

namespace cairn::kernels {

/// Which rows of a view queries read.
struct RowSource {
  KvView kv;
  std::span<const AttentionSlice> slices;
  int32_t window = 0;               ///< > 0: only the last so many of those seen
  const int32_t* chosen = nullptr;  ///< [queries, chosen_max] or null: only those that select_topk() chose
  int32_t chosen_max = 0;
};
inline constexpr size_t kRowSourcesMax = 2;

struct RowAttentionParams {
  int32_t heads = 0;
  int32_t value_dim = 0;         ///< a row's value is its first elements
  float scale = 1;               ///< multiplies q.k; > 0
  const float* sinks = nullptr;  ///< [heads], joins each softmax's denominator as exp(sink); or null
};

/// Blocks of neighbouring rows, which a choice finds or is made among. A block's score is its best row's; one whose
/// last row is not seen yet comes before all others.
struct CandidateBlocks {
  int32_t rows = 0;  ///< of a block; 0: there are none
  int32_t most = 0;  ///< (most - 1) * rows is no less than the rows that are chosen
  bool find = false;
  int32_t* blocks = nullptr;  ///< [queries, most]: numbers of the best ones, ascending
};

struct ChooseParams {
  int32_t heads = 0;
  int32_t most = 0;                 ///< rows that are chosen; all, where no more are seen
  CandidateBlocks candidates = {};  ///< of backends with Backend::deepseek41()
};

/// Conventions as in Backend.
class MlaOperations {
 public:
  virtual ~MlaOperations() = default;
  /// Writes x, the rows that the slices' positions complete (kv_row_place), in order: [completed, key_dim].
  virtual void store_rows(const KvView& kv, std::span<const AttentionSlice> slices, const float* x) = 0;
  /// out[i] = the row of the position before the i-th of the slices' positions, zeros where there is none or its page
  /// is kNoPage: [positions, key_dim]. Of kF32 views with a row for each position.
  virtual void load_previous_rows(const KvView& kv, std::span<const AttentionSlice> slices, float* out) = 0;
  /// The rows with the largest sums over heads h of weights[h] * max(0, q[h] . row), into chosen [queries, most]:
  /// ascending; what is behind the last of fewer is left as it is. Which of equal sums is for the backend to say. q
  /// [queries, heads * key_dim], weights [queries, heads].
  virtual void select_topk(const ChooseParams& params, const KvView& keys, std::span<const AttentionSlice> slices,
                           const float* q, const float* weights, int32_t* chosen) = 0;
  /// One softmax over the rows of all sources, which have the same key_dim. q [queries, heads * key_dim]; out [queries,
  /// heads * value_dim].
  virtual void attend_rows(const RowAttentionParams& params, std::span<const RowSource> sources, const float* q,
                           float* out) = 0;
};

}  // namespace cairn::kernels
