/// One forward pass of a decoder over a ragged batch: whatever a DecoderConfig says, by operations of a Backend.
/// Where several backends share the layers, each has a Decoder of its own (pipeline.h). How the layers that draft work
/// is in mtp.cpp and dspark.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/activation_arena.h"
#include "model/batch_rows.h"
#include "model/config.h"
#include "model/control_vectors.h"
#include "model/decoder/decoder_activations.h"
#include "model/decoder/decoder_weights.h"
#include "model/model_options.h"
#include "model/parts/head.h"
#include "model/parts/recurrent/layers.h"
#include "model/parts/residual.h"
#include "model/runner.h"

namespace cairn::model {

class Decoder final : public Runner {
 public:
  /// Bytes that create() takes, of the backend's working memory too.
  static int64_t bytes(const DecoderConfig& config, const kernels::Backend& backend, const ModelOptions& options,
                       LayerRange range);
  /// The part of them that is the backend's workspace, which decoders of one backend share.
  static int64_t workspace_bytes(const DecoderConfig& config, const kernels::Backend& backend,
                                 const ModelOptions& options, LayerRange range);
  /// Allocates all that steps need; `weights` are of the range, `kv` of all layers. Errors: kOutOfMemory.
  static Result<std::unique_ptr<Decoder>> create(DecoderConfig config, DecoderWeights weights,
                                                 kernels::Backend& backend, const ModelOptions& options,
                                                 LayerRange range, KvPlan kv);

  /// Runs all layers.
  Result<LogitsView> step(const Batch& batch) override;
  /// For a range of layers with the first, but not the last: writes `rows` [rows of the batch, R], where R is
  /// ResidualConfig::saved_elements().
  Result<void> first_step(const Batch& batch, std::span<float> rows);
  /// For a range with neither the first nor the last layer: replaces the rows by those behind its layers.
  Result<void> middle_step(const Batch& batch, std::span<float> rows);
  /// For a range with the last layer, but not the first: computes the logits from those rows.
  Result<LogitsView> last_step(const Batch& batch, std::span<const float> rows);
  /// `assistant` drafts in place of an MTP module; the config has keeps_rows. `in` [its embedding, 2 * this one's]
  /// makes its rows of pairs of a token and the row before it, `out` [this embedding, its own] makes rows of its own.
  void use_assistant(std::unique_ptr<Decoder> assistant, Linear in, Linear out);
  Result<void> keep_drafts(const cache::PagePool& pool, const BatchSlice& slice, int32_t count) override;
  bool has_mtp() const override { return config_.drafts(); }
  int32_t draft_block() const override { return config_.dspark ? config_.dspark->block : 1; }
  Result<LogitsView> mtp_step(const Batch& batch) override;
  const cache::KvLayout& kv_layout() const override { return kv_.layout; }
  int64_t vocabulary() const override { return config_.vocabulary; }
  int32_t context_tokens() const override { return config_.context_tokens; }
  int32_t batch_tokens_max() const override { return rows_max_; }
  int32_t logits_max() const override { return logit_rows_max_; }
  bool samples_on_device() const override { return head_.samples_on_device(); }
  Result<void> sample(std::span<const kernels::SampleRequest> samples, std::span<const kernels::LogitChange> changes,
                      std::span<const kernels::AllowedTokens> allowed,
                      std::span<kernels::SampleResult> sampled) override {
    return head_.sample(samples, changes, allowed, sampled);
  }
  Result<std::span<const float>> logits_row(int64_t row) override { return head_.row(row); }
  EmbeddingAbility embedding() const override;
  float rank(std::span<const float> hidden) const override;

 private:
  Decoder(DecoderConfig config, DecoderWeights weights, kernels::Backend& backend, const ModelOptions& options,
          LayerRange range, KvPlan kv);

  /// Makes activations_, and gives the parts theirs.
  Result<void> allocate(int32_t logit_rows);
  void reserve_rows(const ModelOptions& options, int32_t logit_rows);
  /// Fills batch_ and what else belongs to the step.
  void plan(const Batch& batch);
  void plan_temperatures();
  static kernels::WorkspaceSizes work_sizes(const DecoderConfig& model, int32_t rows, int32_t logit_rows);
  /// The residual stream of the rows before the range: of their tokens, or those that a range before has left.
  void begin_with_tokens(const Batch& batch);
  void begin_with(const Batch& batch, std::span<const float> rows);
  /// Work of a step that comes before the backend's.
  void look_up_inputs(const Batch& batch);
  void run_layers(const cache::PagePool& pool);
  void compute_ropes();
  /// Attention, or what the layer has instead.
  void mix(size_t layer, const cache::PagePool& pool);
  AttentionStep attention_step(size_t layer, const cache::PagePool& pool) const;
  /// From the normalised input to the block's output.
  void attention(size_t layer, const cache::PagePool& pool, const float* x);
  void attend_compressed(size_t layer, const float* x);
  void recur(size_t layer, const cache::PagePool& pool, const float* x);
  /// Number of a layer among those of its device that keep a state.
  int32_t state_layer(size_t layer) const;
  void feed_forward(size_t layer);
  /// The dense feed-forward and the experts, each between norms of its own.
  void dense_and_routed(const LayerWeights& weights, const float* x, float* out);
  /// What follows the feed-forward: the layer's own input, and its scale of the residual stream.
  void end_layer(size_t layer);
  /// Reads the head that ranks into host memory.
  Result<void> read_labels();
  /// After the last attention only rows that something is wanted of go on.
  void select_output_rows();
  void choose_tokens(std::span<const int32_t> first, std::span<const int32_t> then);
  /// The end of a step, behind the last layer.
  Result<LogitsView> finish(const Batch& batch);
  Result<LogitsView> logits();
  /// What the rows that are wanted, [rows_, embedding] and normalised, give by the output's weights.
  Result<LogitsView> head(const Linear& output, const float* rows);
  const LayerWeights& weights_of(size_t layer) const { return weights_.layers[layer - range_.begin]; }

  // -- The MTP module, mtp.cpp.
  /// The end of a step with a module: keeps all rows, and computes the logits of those that are wanted.
  Result<LogitsView> logits_of_kept_rows(const cache::PagePool& pool);
  /// Computes of the batch's rows what drafts for later ones look back at.
  void follow(const Batch& batch);
  /// The residual stream = what the module's layer reads of the tokens and the rows before them.
  void begin_drafts(const Batch& batch);
  /// The same by two matrices.
  void add_projections(const float* tokens, const float* before);
  /// activations_.pairs of the batch's tokens and the rows before them, normalised for an MTP module.
  void pair_rows(const Batch& batch);
  Result<LogitsView> assisted_step(const Batch& batch);
  /// An assistant drafts from pairs; `rows` are what it gives. A slice has one row, which sees what its position
  /// sees, but is turned by the position behind.
  Result<LogitsView> assist(const Batch& batch, const Linear& in, const float* pairs, const Linear& out, float* rows);
  /// Writes rows to where the next ones look for them.
  void keep_rows(const cache::PagePool& pool, const float* rows);
  /// Stores the keys that a layer which drafts makes of what it reads, `x`.
  void store_keys(size_t layer, const cache::PagePool& pool, const float* x);

  // -- The drafting head, dspark.cpp.
  /// Sequences that draft blocks at once.
  static int32_t draft_slices_max(const DecoderConfig& model, int32_t rows_max, int32_t logits_max);
  void reserve_dspark();
  /// Keeps what the head reads before `layer` of the model.
  void keep_main_inputs(size_t layer);
  /// follow() for the head.
  void follow_dspark(const cache::PagePool& pool);
  void plan_block(const Batch& batch);
  void compute_block(const cache::PagePool& pool);
  Result<LogitsView> dspark_step(const Batch& batch);
  /// Fills confidence_ for the block's rows, whose drafts follow tokens with markov_rows.
  void judge_drafts();

  const DecoderConfig config_;
  const DecoderWeights weights_;
  kernels::Backend& backend_;
  const LayerRange range_;
  const int32_t rows_max_;
  const int32_t logit_rows_max_;
  const KvPlan kv_;
  ControlVectors control_vectors_;
  ActivationArena arena_;
  DecoderActivations activations_;
  Residual residual_;
  std::optional<CompressedAttention> compressed_;
  std::optional<Engrams> engrams_;
  std::optional<RecurrentLayers> recurrent_;
  std::optional<PerLayerInputs> per_layer_inputs_;
  std::vector<float> labels_;           // [0, 1 or 2, embedding]
  std::unique_ptr<Decoder> assistant_;  // null: none
  Linear assistant_in_;
  Linear assistant_out_;

  // What follows is of the step in progress; reserved once.
  BatchRows batch_;
  int32_t rows_ = 0;                         // those that are still wanted
  std::vector<TokenId> tokens_;              // of these rows, if experts may be chosen by them
  std::vector<TokenId> all_tokens_;          // before some were chosen
  std::vector<float> temperatures_;          // per row, if the model has them
  std::vector<TokenId> position_ids_;        // rows of the table of learned positions
  std::vector<kernels::StateSlice> states_;  // of the layer in progress
  std::vector<int32_t> draft_rows_;          // ascending; none without recurrent layers
  std::vector<BatchSlice> assistant_slices_;
  std::vector<int32_t> turns_;  // of an assistant: positions by which the rows are turned
  bool keeps_logits_ = false;
  Head head_;

  /// The block of drafts.
  struct Block {
    std::vector<TokenId> tokens;
    std::vector<BatchSlice> slices;
    std::vector<const cache::PageTable*> pages;       // each block's sequence
    std::vector<kernels::AttentionSlice> row_slices;  // each row as the last of its block, so that it sees all of it
    std::vector<int32_t> rows;                        // of block_logits
    std::vector<float> confidence;
  };
  Block block_;
};

}  // namespace cairn::model
