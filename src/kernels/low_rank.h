/// Low-rank adapters of matrices (LoRA): y = W x + scale B (A x). The weights W stay as they are, quantised or not.
/// Of matrices per expert either part may be one that all experts share.
///
/// Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/weight_store.h"

namespace cairn::kernels {

class Backend;
struct MatmulTarget;

/// Scale of each of a model's adapters for each row of a step. Allocates in reserve() only. Thread: the model's.
class LowRankRows {
 public:
  /// `scales` has one of each adapter, for rows that ask for nothing else.
  void reserve(std::span<const float> scales, int64_t rows_max);
  /// Begins a step, without rows.
  void begin();
  /// The step's next rows, which take the adapters by `scales`, or without any by those that were reserved.
  void add(std::span<const float> scales, int32_t rows);
  /// The products that follow are of these rows of the step, in this order.
  void choose(std::span<const int32_t> first, std::span<const int32_t> then);
  /// The products that follow are of all rows of the step.
  void choose_all() { chooses_ = false; }
  /// The scales of an adapter for the first `rows` rows of a product.
  std::span<const float> of(int32_t adapter, int32_t rows) const;

 private:
  std::vector<float> scales_;
  std::vector<std::vector<float>> all_;     // [adapter][row of the step]
  std::vector<std::vector<float>> chosen_;  // [adapter][row of the products]
  bool chooses_ = false;
};

/// What the products of a model's adapters share. They write one after the other.
struct LowRankScratch {
  Buffer low;    ///< A x: [rows, rank], or with experts [rows, used, rank]
  Buffer added;  ///< B (A x): [rows, rows of B], or [rows, used, rows of B]
  LowRankRows rows;
};

struct LowRank {
  Weight a;             ///< [experts, rank, cols], or [1, rank, cols] for all experts
  Weight b;             ///< [experts, rows, rank], or [1, rows, rank] for all experts if they do not share `a`
  int32_t adapter = 0;  ///< its number among the model's, for LowRankRows
  float scale = 1;      ///< besides that of a row
  std::shared_ptr<const LowRankScratch> scratch;
};

/// For backends, behind matmul() and grouped_matmul(): adds the products of the targets' adapters to what those have
/// written. Arguments as there.
void add_low_rank(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows);
void add_low_rank_of_experts(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                             const int32_t* ids, int32_t used, bool input_per_choice);

/// out[i] = scale * (row ids[i] of the table + what the adapters add to it); out [ids.size(), table.cols], for the rows
/// that products of this step have. An adapter of a table [rows, cols] has `a` [rows, rank], which is looked up as the
/// table is, and `b` [cols, rank].
void look_up(Backend& backend, const Weight& table, std::span<const LowRank> adapters, std::span<const TokenId> ids,
             float scale, float* out);

}  // namespace cairn::kernels
