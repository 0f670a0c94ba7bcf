/// The forward pass of an encoder over whole texts: whatever an EncoderConfig says, by operations of a Backend.
///
/// Attention goes layer by layer over all rows, with the keys and values of that layer in pages of its own; all else
/// goes in chunks of rows, so that the widest arrays do not grow with the context.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/activation_arena.h"
#include "model/embedder.h"
#include "model/encoder/encoder_config.h"
#include "model/encoder/encoder_weights.h"

namespace cairn::model {

class Encoder final : public Embedder {
 public:
  /// Bytes that create() takes, of the backend's working memory too.
  static int64_t bytes(const EncoderConfig& config, const kernels::Backend& backend, int32_t chunk_rows);
  /// Rows of a call's products, at most.
  static int32_t product_rows(int32_t chunk_rows) { return std::max(chunk_rows, kTextsMax); }
  /// Allocates all that calls need. Errors: kOutOfMemory.
  static Result<std::unique_ptr<Embedder>> create(EncoderConfig config, EncoderWeights weights,
                                                  kernels::Backend& backend, int32_t chunk_rows);

  const EmbeddingAbility& ability() const override { return ability_; }
  int64_t vocabulary() const override { return config_.vocabulary; }
  int32_t context_tokens() const override { return config_.context_tokens; }
  int32_t batch_tokens_max() const override { return batch_tokens_max(config_); }
  int32_t texts_max() const override { return kTextsMax; }
  Result<void> embed(std::span<const EmbedText> texts, Pooling pooling, std::span<float> out) override;

 private:
  /// Texts are short where there are many: what they have in common is the reading of the weights.
  static constexpr int32_t kTextsMax = 64;
  static constexpr int32_t kRowsMin = 512;

  /// Rows of a chunk: what of the batch's texts is in it.
  struct Chunk {
    int32_t begin = 0;
    int32_t rows = 0;
    size_t first_text = 0;                            // of the slices, which are of one text each
    std::span<const kernels::AttentionSlice> slices;  // rows counted from the chunk's begin
  };
  /// R is rows of a call (batch_tokens_max), C rows of a chunk, T texts of a call.
  struct Activations {
    float* hidden = nullptr;         // [R, embedding]
    AttentionActivations attention;  // queries and what they have read of R rows, keys and values of C
    RopeTables ropes;                // of R rows
    float* kv = nullptr;             // pages of one layer's keys and values
    float* normed = nullptr;         // [C, embedding], if norms come before blocks
    float* block = nullptr;          // [C, embedding]
    FeedForwardActivations feed_forward;
    ExpertsActivations experts;
    float* pooled = nullptr;      // [T, the most that a layer over pooled rows has]
    float* pooled_out = nullptr;  // the same

    void add_to(ActivationArena& arena, const EncoderConfig& config, int32_t chunk_rows);
  };

  Encoder(EncoderConfig config, EncoderWeights weights, kernels::Backend& backend, int32_t chunk_rows);
  static int32_t batch_tokens_max(const EncoderConfig& config);
  static int32_t pages_max(const EncoderConfig& config);
  /// The most numbers that a layer over pooled rows reads or gives; 0 if there is none.
  static int64_t pooled_width(const EncoderConfig& config);
  static kernels::WorkspaceSizes work_sizes(const EncoderConfig& config, int32_t chunk_rows);
  Result<void> allocate();

  /// Checks the texts against the limits and fills tokens_, positions_, types_, slices_ and chunks_.
  void plan(std::span<const EmbedText> texts);
  void cut_into_chunks();
  float* hidden_at(const Chunk& chunk) const { return activations_.hidden + int64_t{chunk.begin} * config_.embedding; }
  float* heads_at(float* all, const Chunk& chunk) const { return all + chunk.begin * config_.query_width(); }
  /// What a block reads: hidden rows, or their norm if there is one before the block.
  const float* input_of_block(const Norm& norm, const Chunk& chunk);
  /// Adds what is in `block` to hidden rows, with the norm after it.
  void add_block(const Norm& norm, const Chunk& chunk);
  /// Products are of the chunk's rows from here on: adapters' scales are theirs.
  void begin_products(const Chunk& chunk);
  void embed_tokens(const Chunk& chunk);
  void attention(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer);
  void project(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer, const Chunk& chunk);
  void finish_layer(const EncoderLayerWeights& weights, const EncoderLayerConfig& layer, const Chunk& chunk);
  void finish(const Chunk& chunk);
  /// The rows of the texts, in host memory.
  std::span<const float> read_rows();
  /// Pools each text's rows to [texts, embedding].
  void pool(Pooling pooling, std::span<float> out);
  void embed_texts(Pooling pooling, std::span<float> out);
  void rank(std::span<float> out);
  /// Replaces the pooled rows by the layer's outputs.
  void map_pooled(const Linear& layer);

  const EncoderConfig config_;
  const EncoderWeights weights_;
  kernels::Backend& backend_;
  const int32_t chunk_rows_;
  const EmbeddingAbility ability_;

  ActivationArena arena_;
  Activations activations_;
  kernels::KvView kv_view_;
  std::vector<float> host_;    // [batch_tokens_max, embedding]
  std::vector<float> pooled_;  // [texts_max, embedding], of models with layers over pooled rows
  std::vector<PageId> pages_;

  // What follows is of the call in progress; reserved once.
  std::vector<TokenId> tokens_;
  std::vector<TokenId> position_ids_;  // rows of the tables of positions and types
  std::vector<TokenId> types_;
  std::vector<int32_t> positions_;
  std::vector<std::span<const float>> adapter_scales_;  // of each text
  std::vector<kernels::AttentionSlice> slices_;         // one per text
  std::vector<kernels::AttentionSlice> chunk_slices_;   // of all chunks, in order
  std::vector<Chunk> chunks_;
};

}  // namespace cairn::model
