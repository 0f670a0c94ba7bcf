/// Attention over latent rows (MLA): one short row per position, from which every head's key and value would be made.
///
/// Instead of that, each head's query is turned into one for rows, and what it has read of rows into its value: both
/// are products with one matrix per head, and rows are all that is kept. With an indexer a query reads the rows that
/// its scores choose (DeepSeek 3.2), or those that an indexer of an earlier layer has chosen (GLM 5.2).
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/config.h"
#include "model/parts/attention.h"
#include "model/weights/latent_weights.h"

namespace cairn {

class Backend;

/// Where the layer keeps its rows, and how it chooses among them.
struct LatentStep {
  AttentionStep attention;  ///< `kv` has the rows
  bool chooses = false;     ///< by its indexer; otherwise it reads the rows that the layer before has chosen, if any
  KvView index_keys;        ///< if it chooses
};

class LatentAttention {
 public:
  /// Bytes that create() takes.
  static int64_t bytes(const DecoderConfig& config, int32_t rows);
  /// Adds what run() needs of the backend.
  static void add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes);
  /// For steps of at most `rows`; `config`, which has `latent`, outlives this. The backend has reserved
  /// add_work(). Errors: kUnsupported (a backend without LatentOperations), kOutOfMemory.
  static Result<LatentAttention> create(Backend& backend, const DecoderConfig& config, int32_t rows);

  /// x [rows, embedding] to `out` of the same shape; attended [rows, heads * value_dim] are the values of all heads.
  void run(const LatentWeights& weights, const LatentStep& step, const float* x, float* attended, float* out) const;

 private:
  /// [R, ...] for R rows.
  struct Activations {
    float* query_low = nullptr;     // q_lora_rank
    float* query = nullptr;         // heads * query_dim
    float* query_nope = nullptr;    // heads * nope
    float* heads_rank = nullptr;    // heads * rank: queries for the latent part of rows; then what heads have read
    float* query_rows = nullptr;    // heads * row_dim: queries for rows
    float* row = nullptr;           // row_dim
    float* row_rank = nullptr;      // rank
    int32_t* heads = nullptr;       // heads: 0, 1, ...
    float* index_query = nullptr;   // indexer heads * key_dim
    float* index_key = nullptr;     // key_dim
    float* index_shares = nullptr;  // indexer heads
    int32_t* chosen = nullptr;      // indexer's most; stays for later layers of the step

    void add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows);
  };

  LatentAttention(Backend& backend, const DecoderConfig& config) : backend_(&backend), description_(&config) {}

  void project(const LatentWeights& weights, const LatentStep& step, const float* x) const;
  void choose(const LatentWeights& weights, const LatentStep& step) const;
  void make_queries(const LatentWeights& weights, const LatentStep& step) const;
  void store_row(const LatentWeights& weights, const LatentStep& step) const;

  Backend* backend_;
  const DecoderConfig* description_;
  ActivationArena arena_;
  Activations activations_;
};

}  // namespace cairn
