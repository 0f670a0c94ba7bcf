/// A decoder whose layers are on two backends, one after the other.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/decoder.h"
#include "model/runner.h"

namespace cairn {

/// The rows that the first part leaves go through host memory to the last one, which does all else. Which device a
/// layer is on is settled at load and never depends on a batch: same bytes (design 1.1).
class Pipeline final : public Runner {
 public:
  /// `embedding`: columns of a row between the two.
  Pipeline(std::unique_ptr<Decoder> first, std::unique_ptr<Decoder> last, int64_t embedding)
      : first_(std::move(first)), last_(std::move(last)), embedding_(embedding), rows_(rows_max() * embedding) {}

  Result<LogitsView> step(const Batch& batch) override {
    const std::span<float> rows = std::span(rows_).first(batch.tokens.size() * embedding_);
    CAIRN_TRY_VOID(first_->first_step(batch, rows));
    return last_->last_step(batch, rows);
  }
  const KvLayout& kv_layout() const override { return last_->kv_layout(); }
  int64_t vocabulary() const override { return last_->vocabulary(); }
  int32_t context_tokens() const override { return last_->context_tokens(); }
  int32_t rows_max() const override { return last_->rows_max(); }
  int32_t logit_rows_max() const override { return last_->logit_rows_max(); }
  EmbeddingAbility embedding() const override { return last_->embedding(); }
  float rank(std::span<const float> hidden) const override { return last_->rank(hidden); }

 private:
  const std::unique_ptr<Decoder> first_;
  const std::unique_ptr<Decoder> last_;
  const int64_t embedding_;
  std::vector<float> rows_;  // [rows_max(), embedding_]
};

}  // namespace cairn
