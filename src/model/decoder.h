/// One forward pass of a decoder over a ragged batch: whatever a DecoderDescription says, by operations of a Backend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/batch_rows.h"
#include "model/description.h"
#include "model/directions.h"
#include "model/latent_attention.h"
#include "model/model.h"
#include "model/runner.h"
#include "model/scratch.h"
#include "model/weights/decoder_weights.h"

namespace cairn {

class Decoder final : public Runner {
 public:
  /// Bytes that create() takes, of the backend's working memory too.
  static int64_t bytes(const DecoderDescription& description, const Backend& backend, const ModelOptions& options);
  /// Allocates all that steps need. Errors: kOutOfMemory.
  static Result<std::unique_ptr<Runner>> create(DecoderDescription description, DecoderWeights weights,
                                                Backend& backend, const ModelOptions& options);

  Result<LogitsView> step(const Batch& batch) override;
  const KvLayout& kv_layout() const override { return kv_layout_; }
  int64_t vocabulary() const override { return description_.vocabulary; }
  int32_t context_tokens() const override { return description_.context_tokens; }
  int32_t rows_max() const override { return rows_max_; }
  int32_t logit_rows_max() const override { return logit_rows_max_; }
  EmbeddingAbility embedding() const override;
  float rank(std::span<const float> hidden) const override;

 private:
  Decoder(DecoderDescription description, DecoderWeights weights, Backend& backend, const ModelOptions& options);

  /// Fills batch_ and temperatures_.
  void plan(const Batch& batch);
  static WorkSizes work_sizes(const DecoderDescription& model, int32_t rows);
  void compute_ropes();
  void attention(size_t layer, const PagePool& pool);
  /// From the normalised input to kAttended.
  void attend(size_t layer, const PagePool& pool, const float* x);
  void attend_latent(size_t layer, const PagePool& pool, const float* x);
  void query_key_value(size_t layer, const float* x);
  void feed_forward(size_t layer);
  void dense(const FeedForwardWeights& weights, int64_t inner, const float* x, float* out);
  void routed(const LayerWeights& weights, const float* x, float* out);
  /// hidden += residual_scale * norm(block).
  void add_block(const Buffer& post_norm);
  /// Reads the head that ranks into host memory.
  Result<void> read_labels();
  /// After the last attention only rows that something is wanted of go on: rows_ and hidden_ become theirs.
  void keep_wanted_rows();
  Result<LogitsView> logits();
  const float* rope_table(int32_t rope) const;

  const DecoderDescription description_;
  const DecoderWeights weights_;
  Backend& backend_;
  const int32_t rows_max_;
  const int32_t logit_rows_max_;
  std::vector<KvPlace> kv_places_;  // per layer
  KvLayout kv_layout_;
  Directions directions_;
  Scratch scratch_;
  std::optional<LatentAttention> latent_;
  std::vector<float> labels_;  // [0, 1 or 2, embedding]

  // Of the step in progress; reserved once.
  BatchRows batch_;
  int32_t rows_ = 0;                 // those that are still wanted
  float* hidden_ = nullptr;          // [rows_, embedding], the residual stream
  std::vector<float> temperatures_;  // per row, if the model has them
  // In host memory. Their pages are taken when rows are wanted.
  std::unique_ptr<float[]> logits_;         // [logit_rows_max_, vocabulary]
  std::unique_ptr<float[]> hidden_values_;  // [rows_max_, embedding]
};

}  // namespace cairn
