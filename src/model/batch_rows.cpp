#include "model/batch_rows.h"

#include "base/check.h"
#include "kernels/row_operations.h"

namespace cairn::model {

void gather_chosen(kernels::RowOperations& operations, const float* x, std::span<const int32_t> first,
                   std::span<const int32_t> then, int64_t width, float* out) {
  if (!first.empty()) operations.gather_rows(x, first, width, out);
  if (!then.empty()) operations.gather_rows(x, then, width, out + std::ssize(first) * width);
}

void BatchRows::reserve(const BatchLimits& limits) {
  limits_ = limits;
  positions_.reserve(limits.rows);
  slices_.resize(limits.groups);
  for (auto& slices : slices_) slices.reserve(limits.rows);
  logit_rows_.reserve(limits.logit_rows);
  hidden_rows_.reserve(limits.hidden ? limits.rows : 0);
}

void BatchRows::plan(const Batch& batch) {
  CAIRN_CHECK(batch.pool != nullptr && batch.pool->layout().groups.size() == limits_.groups);
  CAIRN_CHECK(!batch.tokens.empty() && batch.tokens.size() <= static_cast<size_t>(limits_.rows));
  for (const TokenId token : batch.tokens) CAIRN_CHECK(index(token) >= 0 && index(token) < limits_.vocabulary);
  positions_.clear();
  for (auto& slices : slices_) slices.clear();
  logit_rows_.clear();
  hidden_rows_.clear();
  for (const BatchSlice& slice : batch.slices) plan_slice(batch, slice);
  CAIRN_CHECK(rows() == static_cast<int32_t>(batch.tokens.size()));
}

void BatchRows::plan_slice(const Batch& batch, const BatchSlice& slice) {
  CAIRN_CHECK(slice.row_begin == rows() && slice.rows > 0);
  CAIRN_CHECK(slice.rows <= static_cast<int64_t>(batch.tokens.size()) - rows());
  CAIRN_CHECK(slice.position_begin >= 0 && slice.position_begin <= limits_.context_tokens - slice.rows);
  CAIRN_CHECK(slice.pages != nullptr && slice.pages->groups.size() == limits_.groups);
  const int32_t end = slice.position_begin + slice.rows;
  for (size_t group = 0; group < limits_.groups; ++group) {
    const std::vector<PageId>& pages = slice.pages->groups[group];
    const bool state = batch.pool->layout().groups[group].kind == cache::KvKind::kState;
    CAIRN_CHECK(state ? pages.size() == 1 : static_cast<int64_t>(pages.size()) * kernels::kPageTokens >= end);
    slices_[group].push_back({slice.row_begin, slice.rows, slice.position_begin, pages});
  }
  for (int32_t position = slice.position_begin; position < end; ++position) positions_.push_back(position);
  if (slice.logits == LogitsWanted::kNone) return;
  const bool last = slice.logits == LogitsWanted::kLast || slice.logits == LogitsWanted::kHiddenLast;
  const bool hidden = slice.logits == LogitsWanted::kHiddenLast || slice.logits == LogitsWanted::kHiddenAll;
  CAIRN_CHECK(!hidden || limits_.hidden);
  const int32_t first = last ? rows() - 1 : slice.row_begin;
  const int64_t logit_rows = std::ssize(logit_rows_) + (hidden ? 0 : rows() - first);
  CAIRN_CHECK(logit_rows <= limits_.logit_rows);
  std::vector<int32_t>& wanted = hidden ? hidden_rows_ : logit_rows_;
  for (int32_t row = first; row < rows(); ++row) wanted.push_back(row);
}

}  // namespace cairn::model
