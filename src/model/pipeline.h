/// A decoder whose layers are on several backends, one after the other.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/decoder/decoder.h"
#include "model/runner.h"

namespace cairn::model {

/// The rows that a stage leaves go through host memory to the next one; the last one does all else. Which device a
/// layer is on is settled at load and never depends on a batch (docs/architecture.md, "Same bytes").
class Pipeline final : public Runner {
 public:
  /// `earlier`: the stages before the last, at least one. `columns`: of a row between two stages.
  Pipeline(std::vector<std::unique_ptr<Decoder>> earlier, std::unique_ptr<Decoder> last, int64_t columns)
      : earlier_(std::move(earlier)), last_(std::move(last)), columns_(columns), rows_(batch_tokens_max() * columns) {}

  Result<LogitsView> step(const Batch& batch) override {
    const std::span<float> rows = std::span(rows_).first(batch.tokens.size() * columns_);
    CAIRN_TRY_VOID(earlier_.front()->first_step(batch, rows));
    for (const auto& stage : std::span(earlier_).subspan(1)) CAIRN_TRY_VOID(stage->middle_step(batch, rows));
    return last_->last_step(batch, rows);
  }
  Result<void> keep_drafts(const cache::PagePool& pool, const BatchSlice& slice, int32_t count) override {
    for (const auto& stage : earlier_) CAIRN_TRY_VOID(stage->keep_drafts(pool, slice, count));
    return last_->keep_drafts(pool, slice, count);
  }
  bool has_mtp() const override { return last_->has_mtp(); }
  Result<LogitsView> mtp_step(const Batch& batch) override { return last_->mtp_step(batch); }
  const cache::KvLayout& kv_layout() const override { return last_->kv_layout(); }
  int64_t vocabulary() const override { return last_->vocabulary(); }
  int32_t context_tokens() const override { return last_->context_tokens(); }
  int32_t batch_tokens_max() const override { return last_->batch_tokens_max(); }
  int32_t logits_max() const override { return last_->logits_max(); }
  bool samples_on_device() const override { return last_->samples_on_device(); }
  Result<void> sample(std::span<const kernels::SampleRequest> samples, std::span<const kernels::LogitChange> changes,
                      std::span<const kernels::AllowedTokens> allowed,
                      std::span<kernels::SampleResult> sampled) override {
    return last_->sample(samples, changes, allowed, sampled);
  }
  Result<std::span<const float>> logits_row(int64_t row) override { return last_->logits_row(row); }
  EmbeddingAbility embedding() const override { return last_->embedding(); }
  float rank(std::span<const float> hidden) const override { return last_->rank(hidden); }

 private:
  const std::vector<std::unique_ptr<Decoder>> earlier_;
  const std::unique_ptr<Decoder> last_;
  const int64_t columns_;
  std::vector<float> rows_;  // [batch_tokens_max(), columns_]
};

}  // namespace cairn::model
