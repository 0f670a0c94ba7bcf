/// Low-rank adapters of matrices (LoRA): y = W x + scale B (A x). The weights W stay as they are, quantised or not.
///
/// Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section 4.1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/weight_store.h"

namespace cairn {

class Backend;
struct MatmulTarget;

/// What the products of a model's adapters write, one after the other.
struct LowRankScratch {
  Buffer low;    ///< A x: [rows, rank], or with experts [rows, used, rank]
  Buffer added;  ///< B (A x): [rows, rows of B], or [rows, used, rows of B]
};

struct LowRank {
  Weight a;  ///< [experts, rank, cols]
  Weight b;  ///< [experts, rows, rank]
  float scale = 1;
  std::shared_ptr<const LowRankScratch> scratch;
};

/// For backends, behind matmul() and grouped_matmul(): adds the products of the targets' adapters to what those have
/// written. Arguments as there.
void add_low_rank(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows);
void add_low_rank_of_experts(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                             const int32_t* ids, int32_t used, bool input_per_choice);

}  // namespace cairn
