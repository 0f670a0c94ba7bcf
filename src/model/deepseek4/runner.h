/// One forward pass of DeepSeek V4 over a ragged batch.
///
/// A token has several residual streams; every block reads a mix of them and its output is mixed back. One row per
/// token is key and value of all heads. Attention sees the last positions as they are and those before them compressed,
/// in some layers only those compressed rows that an index chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/activation_arena.h"
#include "model/batch_rows.h"
#include "model/deepseek4/config.h"
#include "model/deepseek4/weights.h"
#include "model/model_options.h"
#include "model/parts/head.h"
#include "model/runner.h"

namespace cairn::deepseek4 {

class ModelRunner final : public Runner {
 public:
  /// Bytes that create() takes, of the backend's working memory too.
  static int64_t bytes(const ModelConfig& config, const Backend& backend, const ModelOptions& options);
  /// Allocates all that steps need. Errors: kOutOfMemory.
  static Result<std::unique_ptr<Runner>> create(ModelConfig config, ModelWeights weights, Backend& backend,
                                                const ModelOptions& options);

  Result<LogitsView> step(const Batch& batch) override;
  const KvLayout& kv_layout() const override { return kv_layout_; }
  int64_t vocabulary() const override { return config_.vocabulary; }
  int32_t context_tokens() const override { return config_.context_tokens; }
  bool samples_on_device() const override { return head_.samples_on_device(); }
  Result<void> sample(std::span<const SampleRequest> samples, std::span<const LogitChange> changes,
                      std::span<const AllowedTokens> allowed, std::span<SampleResult> sampled) override {
    return head_.sample(samples, changes, allowed, sampled);
  }
  Result<std::span<const float>> logits_row(int64_t row) override { return head_.row(row); }
  EmbeddingAbility embedding() const override {
    return {.dimensions = static_cast<int32_t>(config_.embedding), .pooling = config_.pooling};
  }
  bool has_mtp() const override { return config_.drafts(); }
  int32_t draft_block() const override { return config_.dspark ? config_.dspark->block : 1; }
  Result<LogitsView> mtp_step(const Batch& batch) override;
  int32_t batch_tokens_max() const override { return rows_max_; }
  int32_t logits_max() const override { return logit_rows_max_; }

 private:
  /// Activations of a step; R is its rows.
  struct Activations {
    HyperConnectionActivations streams;
    float* input = nullptr;  // [R, embedding], of a block
    float* block = nullptr;  // its output
    CompressedAttentionActivations attention;
    EngramActivations engrams;
    FeedForwardActivations feed_forward;
    ExpertsActivations experts;
    float* pairs = nullptr;   // [R, streams, 2, embedding], if there is an MTP module
    float* logits = nullptr;  // [logit rows, vocabulary]
    // If there is a drafting head; D is the sequences that draft at once.
    float* main_inputs = nullptr;        // [R, targets, embedding]
    float* block_hidden = nullptr;       // [D, block, embedding], before the last norm
    float* block_logits = nullptr;       // [D, block, vocabulary], without what the Markov head adds
    float* draft_logits = nullptr;       // [D, vocabulary]: of one row of each block
    float* markov_rows = nullptr;        // [D, markov_rank]
    float* confidence_inputs = nullptr;  // [D, embedding + markov_rank]
    float* confidence = nullptr;         // [D]

    void add_to(ActivationArena& arena, const ModelConfig& model, const ModelOptions& options);
  };
  ModelRunner(ModelConfig config, ModelWeights weights, Backend& backend, const ModelOptions& options);
  /// Sequences that draft blocks at once.
  static int32_t draft_slices_max(const ModelConfig& model, const ModelOptions& options);
  static WorkspaceSizes work_sizes(const ModelConfig& model, const ModelOptions& options);
  Result<void> allocate(const ModelOptions& options);

  /// Fills all that belongs to the step.
  void plan(const Batch& batch);
  void begin_streams(std::span<const TokenId> tokens);
  /// For the MTP module, which starts from the streams of the position before.
  void store_streams(const PagePool& pool);

  void attention(size_t layer);
  void feed_forward(size_t layer);
  void select_output_rows();
  Result<LogitsView> logits(const StreamWeights& streams, const Norm& norm);

  // -- The MTP module, mtp.cpp.
  /// Computes of the batch's rows what drafts for later ones look back at.
  void follow(const Batch& batch);
  /// The streams = what the block's layer reads of the tokens and the streams before them.
  void begin_drafts(const Batch& batch);
  /// Stores the keys that a layer that drafts makes of activations_.input.
  void store_keys(size_t layer);

  // -- The drafting head, dspark.cpp.
  void reserve_dspark(const ModelOptions& options);
  /// Keeps what the head reads before `layer` of the model.
  void keep_main_inputs(size_t layer);
  /// follow() for the head.
  void follow_dspark();
  void plan_block(const Batch& batch);
  void compute_block();
  Result<LogitsView> dspark_step(const Batch& batch);
  /// Fills confidence_ for block_rows_, whose drafts follow tokens with activations_.markov_rows.
  void judge_drafts();

  const ModelConfig config_;
  const ModelWeights weights_;
  Backend& backend_;
  const int32_t rows_max_;
  const int32_t logit_rows_max_;
  std::vector<LayerPlaces> places_;
  KvLayout kv_layout_;
  ControlVectors control_vectors_;
  ActivationArena arena_;
  Activations activations_;
  HyperConnections streams_;
  Engrams engrams_;
  CompressedAttention attention_;

  // Of the step in progress; reserved once.
  BatchRows batch_;
  int32_t rows_ = 0;  // those that are still wanted
  std::vector<TokenId> tokens_;
  std::vector<TokenId> all_tokens_;  // before some were chosen
  // Of the block of drafts.
  std::vector<TokenId> block_tokens_;
  std::vector<BatchSlice> block_slices_;
  std::vector<const PageTable*> block_pages_;     // each block's sequence
  std::vector<AttentionSlice> block_row_slices_;  // each row as the last of its block, so that it sees all of it
  std::vector<int32_t> block_rows_;               // of activations_.block_logits
  std::vector<float> confidence_;
  bool keeps_logits_ = false;
  Head head_;
};

}  // namespace cairn::deepseek4
