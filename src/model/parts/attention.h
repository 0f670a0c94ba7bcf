/// Attention over keys and values of all heads, a part of a layer: its config, its weights, its arrays in a step, and
/// its run. Attention over latent rows is mla.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "kernels/kv.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/norm.h"
#include "model/parts/rope.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightLoader;

/// How queries and keys are normalised.
enum class QkNorm {
  kNone,
  kPerHead,            ///< RMS, each head by itself; weight [head_dim]
  kAllHeads,           ///< RMS, the whole row; weight [heads * head_dim]
  kPerHeadUnweighted,  ///< RMS, each head by itself; no weight
  kLayerNormPerHead,   ///< layer norm, each head by itself with its own weight; weight [heads, head_dim]
};

/// Attention of one layer.
struct AttentionConfig {
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< divides heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  float scale = 1;
  float soft_cap = 0;
  int32_t window = 0;  ///< as in AttentionParams, as the next two
  bool chunked = false;
  bool causal = true;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_after_rope = false;  ///< queries and keys are normalised once they are rotated, not before
  bool value_norm = false;          ///< values are normalised per head: RMS, without a weight
  bool value_is_key = false;        ///< values are what keys are made from, before these are normalised and rotated
  bool own_kv = true;               ///< or else it reads those of another layer
  bool gated = false;               ///< attn_q has for each head the rows of its query, then as many of a gate
  bool sinks = false;               ///< a score without a value joins each softmax: attn_sinks
  float norm_epsilon = 0;
  const float* slopes = nullptr;  ///< AttentionParams::slopes; outlive the layer
};

/// The norm of all heads of a row.
class HeadNorm {
 public:
  /// `name`.weight, as the kind has it.
  static Result<HeadNorm> load(WeightLoader& loader, const std::string& name, int64_t heads, int64_t dim, QkNorm kind,
                               float epsilon);
  /// x [rows, heads, dim], in place.
  void run(kernels::RowOperations& operations, float* x, int64_t rows) const;

 private:
  QkNorm kind_ = QkNorm::kNone;
  int64_t heads_ = 0;
  int64_t dim_ = 0;
  float epsilon_ = 0;
  Norm norm_;
  kernels::Buffer weights_;  // of each head, where they differ
};

/// Arrays of a step for R rows. Where layers differ there is room for the one with most.
struct AttentionActivations {
  float* query = nullptr;     ///< [R, heads * key_dim]
  float* key = nullptr;       ///< [R, kv_heads * key_dim]
  float* value = nullptr;     ///< [R, kv_heads * value_dim]
  float* gate = nullptr;      ///< [R, heads * value_dim]
  float* attended = nullptr;  ///< [R, heads * value_dim]
};

/// The rows of a step, and where the layer's keys and values are.
struct AttentionStep {
  int32_t rows = 0;
  const RopeConfig* rope = nullptr;  ///< null if nothing turns
  const float* rope_table = nullptr;
  std::span<const float> temperatures;  ///< factors of queries, or empty
  std::span<const kernels::AttentionSlice> slices;
  kernels::KvView kv;
};

class Attention {
 public:
  /// The tensors of the layer whose names begin with `prefix`, in a residual stream of `embedding` elements. Errors:
  /// the loader's.
  static Result<std::unique_ptr<Attention>> load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                                 const AttentionConfig& config);
  /// Adds what attention needs of the backend, with rows that see up to `tokens` positions.
  static void add_work(int64_t rows, int32_t heads, int32_t head_dim, int32_t tokens, kernels::WorkspaceSizes& sizes);

  /// x [rows, embedding] to `out` of the same shape.
  void run(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
           const float* x, float* out) const;

  // -- In parts, for models whose rows go through them at different times.
  /// Makes queries, keys and values of x, and stores the keys and values.
  void project(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
               const float* x) const;
  /// Makes and stores keys and values alone.
  void project_keys(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
                    const float* x) const;
  /// What the queries read of keys and values.
  void read(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step) const;
  /// attended [rows, heads * value_dim] to out [rows, embedding].
  void write(kernels::Backend& backend, const float* attended, int32_t rows, float* out) const;

 private:
  Result<void> load_projections(WeightLoader& loader, const std::string& prefix, int64_t embedding);
  Result<void> load_gated_query(WeightLoader& loader, const std::string& name, int64_t embedding);
  /// Normalises and rotates what was made, with queries or without, and stores keys and values.
  void finish(kernels::Backend& backend, const AttentionActivations& activations, const AttentionStep& step,
              bool queries) const;

  AttentionConfig config_;
  Linear query_;
  Linear key_;    // empty where it has none of its own
  Linear value_;  // empty where values are keys
  Linear gate_;
  HeadNorm query_norm_;
  HeadNorm key_norm_;
  kernels::Buffer sinks_;
  Linear output_;
};

}  // namespace cairn::model
