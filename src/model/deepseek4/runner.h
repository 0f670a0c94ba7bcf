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
#include "kernels/latent_operations.h"
#include "model/activation_arena.h"
#include "model/decoder/batch_rows.h"
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
  int64_t vocabulary() const override { return description_.vocabulary; }
  int32_t context_tokens() const override { return description_.context_tokens; }
  bool samples_on_device() const override { return head_.samples_on_device(); }
  Result<void> sample(std::span<const SampleRequest> samples, std::span<const LogitChange> changes,
                      std::span<const AllowedTokens> allowed, std::span<SampleResult> sampled) override {
    return head_.sample(samples, changes, allowed, sampled);
  }
  Result<std::span<const float>> logits_row(int64_t row) override { return head_.row(row); }
  EmbeddingAbility embedding() const override {
    return {.dimensions = static_cast<int32_t>(description_.embedding), .pooling = description_.pooling};
  }
  bool has_mtp() const override { return description_.drafts(); }
  int32_t draft_block() const override { return description_.dspark ? description_.dspark->block : 1; }
  Result<LogitsView> mtp_step(const Batch& batch) override;
  int32_t batch_tokens_max() const override { return rows_max_; }
  int32_t logits_max() const override { return logit_rows_max_; }

 private:
  /// Activations of a step; R is its rows.
  struct Activations {
    HyperConnectionActivations streams;
    float* input = nullptr;  // [R, embedding], of a block
    float* block = nullptr;  // its output
    float* query_low = nullptr;
    float* query = nullptr;   // [R, heads, head_dim]
    float* latent = nullptr;  // [R, head_dim]
    float* attended = nullptr;
    float* grouped = nullptr;          // [R, output_groups, output_rank]
    int32_t* group_numbers = nullptr;  // [R, output_groups]: 0, 1, ... in each row
    float* values = nullptr;           // [R, width], what compressed rows are made from
    float* scores = nullptr;
    float* index_values = nullptr;
    float* index_scores = nullptr;
    float* compressed = nullptr;     // [R, max(head_dim, index_dim)]
    float* index_query = nullptr;    // [R, index_heads, index_dim]
    float* index_weights = nullptr;  // [R, index_heads]
    int32_t* chosen = nullptr;       // [R, index_rows]
    int32_t* candidates = nullptr;   // [R, candidate_blocks], if a layer chooses among them
    EngramActivations engrams;
    FeedForwardActivations feed_forward;
    ExpertsActivations experts;
    RopeTables ropes;
    float* compressed_ropes = nullptr;  // [ratios, R, rope_dims], of the compressed rows that the step completes
    float* pairs = nullptr;             // [R, streams, 2, embedding], if there is an MTP module
    float* logits = nullptr;            // [logit rows, vocabulary]
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
  /// Of a step's compressed rows of one ratio.
  struct Completed {
    int32_t ratio = 0;
    std::vector<int32_t> positions;  // where they begin
    std::vector<int32_t> ends;       // rows of the step that complete them
  };

  ModelRunner(ModelConfig config, ModelWeights weights, Backend& backend, const ModelOptions& options);
  /// Sequences that draft blocks at once.
  static int32_t draft_slices_max(const ModelConfig& model, const ModelOptions& options);
  static WorkspaceSizes work_sizes(const ModelConfig& model, const ModelOptions& options);
  Result<void> allocate(const ModelOptions& options);

  /// Fills all that belongs to the step.
  void plan(const Batch& batch);
  void compute_ropes();
  const float* rope(Rope which) const;
  const float* compressed_rope(int32_t ratio) const;
  int64_t completed(int32_t ratio) const;
  std::span<const int32_t> completed_ends(int32_t ratio) const;

  void begin_streams(std::span<const TokenId> tokens);

  void attention(size_t layer, const PagePool& pool);
  void project(const LayerConfig& layer, const LayerWeights& weights);
  void store_window(size_t layer, const PagePool& pool);
  void store(const KvPlace& place, const PagePool& pool, const float* rows);
  /// activations_.compressed = the rows that the step completes, normalised and turned.
  void compress_rows(const CompressorParams& params, const CompressorWeights& weights, const KvPlace& values,
                     const KvPlace& scores, const PagePool& pool);
  void compress(size_t layer, const PagePool& pool);
  void compress_index(size_t layer, const PagePool& pool);
  /// V4.1: compressed rows and those of the index, for the layers that see them.
  void make_shared_rows(size_t layer, const PagePool& pool);
  void choose(size_t layer, const PagePool& pool);
  void attend(size_t layer, const PagePool& pool);
  void turn_last(const float* table, float* x, int64_t rows, int32_t heads, int32_t head_dim);

  void feed_forward(size_t layer);
  void select_output_rows();
  Result<LogitsView> logits(const StreamWeights& streams, const Norm& norm);

  // -- The MTP module, mtp.cpp.
  /// Computes of the batch's rows what drafts for later ones look back at.
  void follow(const Batch& batch);
  /// The streams = what the block's layer reads of the tokens and the streams before them.
  void begin_drafts(const Batch& batch);
  /// Stores the keys that a layer that drafts makes of activations_.input.
  void store_keys(size_t layer, const PagePool& pool);

  // -- The drafting head, dspark.cpp.
  void reserve_dspark(const ModelOptions& options);
  /// Keeps what the head reads before `layer` of the model.
  void keep_main_inputs(size_t layer);
  /// follow() for the head.
  void follow_dspark(const Batch& batch);
  void plan_block(const Batch& batch);
  void compute_block(const Batch& batch);
  Result<LogitsView> dspark_step(const Batch& batch);
  /// Fills confidence_ for block_rows_, whose drafts follow tokens with activations_.markov_rows.
  void judge_drafts();

  const ModelConfig description_;
  const ModelWeights weights_;
  Backend& backend_;
  LatentOperations& latent_;
  CompressorOperations& compressor_;
  const int32_t rows_max_;
  const int32_t logit_rows_max_;
  const bool rounding_;  // of rows and index queries, as in training
  std::vector<LayerPlaces> places_;
  KvLayout kv_layout_;
  ControlVectors directions_;
  ActivationArena arena_;
  Activations activations_;
  HyperConnections streams_;
  Engrams engrams_;

  // Of the step in progress; reserved once.
  BatchRows batch_;
  int32_t rows_ = 0;  // those that are still wanted
  std::vector<TokenId> tokens_;
  std::vector<TokenId> all_tokens_;   // before some were chosen
  std::vector<Completed> completed_;  // per ratio
  Buffer no_biases_;
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
