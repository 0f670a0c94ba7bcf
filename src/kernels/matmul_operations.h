/// Products with weights, and the choice among experts. Part of the interface of kernels/backend.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "kernels/low_rank.h"
#include "kernels/routing.h"
#include "kernels/weight_store.h"

namespace cairn::kernels {

/// One product of a `matmul`: out [rows of x, weight->rows] = x W^T + bias, and what its adapters add.
struct MatmulTarget {
  const Weight* weight = nullptr;
  const float* bias = nullptr;  ///< [weight->rows], or null
  float* out = nullptr;
  std::span<const LowRank> adapters = {};
};

/// Conventions as in Backend.
class MatmulOperations {
 public:
  virtual ~MatmulOperations() = default;
  /// out[i] = table row ids[i] * scale; out [ids.size(), table.cols].
  virtual void embed(const Weight& table, std::span<const TokenId> ids, float scale, float* out) = 0;
  /// All projections of one input x [rows, cols], which is quantised once.
  virtual void matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows) = 0;
  /// For each row r and choice j: out[r, j, :] = W[ids[r, j]] input (+ bias row ids[r, j] when given, [experts, rows]).
  /// The input is x[r, :], or x[r, j, :] with `input_per_choice`. ids [rows, used].
  virtual void grouped_matmul(std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                              const int32_t* ids, int32_t used, bool input_per_choice) = 0;
  /// Scores of logits [rows, experts], the `used` largest (ties: lower index first) in descending order, into ids and
  /// weights [rows, used].
  virtual void route(const RouteParams& params, const float* logits, int32_t rows, int32_t* ids, float* weights) = 0;
  /// out[r, :] = sum over j, in order, of weights[r, j] * y[r, j, :].
  virtual void moe_combine(const float* y, const float* weights, int32_t rows, int32_t used, int64_t cols,
                           float* out) = 0;
};

}  // namespace cairn::kernels
