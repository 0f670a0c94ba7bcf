/// What a batch asks of a model, row by row. Memory is reserved once, at load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv.h"
#include "model/runner.h"

namespace cairn::kernels {
class RowOperations;
}  // namespace cairn::kernels

namespace cairn::model {

struct BatchLimits {
  int32_t rows = 0;
  int32_t logit_rows = 0;
  int32_t context_tokens = 0;
  int64_t vocabulary = 0;
  size_t groups = 0;    ///< of the KV layout
  bool hidden = false;  ///< whether hidden rows may be wanted
};

/// out [first.size() + then.size(), width] = these rows of x, in this order.
void gather_chosen(kernels::RowOperations& operations, const float* x, std::span<const int32_t> first,
                   std::span<const int32_t> then, int64_t width, float* out);

class BatchRows {
 public:
  void reserve(const BatchLimits& limits);
  /// A batch beyond the limits, or one whose slices do not fit together, fails a CAIRN_CHECK.
  void plan(const Batch& batch);

  int32_t rows() const { return static_cast<int32_t>(positions_.size()); }
  std::span<const int32_t> positions() const { return positions_; }
  std::span<const kernels::AttentionSlice> slices(int32_t group) const { return slices_[group]; }
  /// Numbers of the rows that logits, or hidden rows, are wanted of; ascending.
  std::span<const int32_t> logit_rows() const { return logit_rows_; }
  std::span<const int32_t> hidden_rows() const { return hidden_rows_; }

 private:
  void plan_slice(const Batch& batch, const BatchSlice& slice);

  BatchLimits limits_;
  std::vector<int32_t> positions_;
  std::vector<std::vector<kernels::AttentionSlice>> slices_;  // per KV group
  std::vector<int32_t> logit_rows_;
  std::vector<int32_t> hidden_rows_;
};

}  // namespace cairn::model
