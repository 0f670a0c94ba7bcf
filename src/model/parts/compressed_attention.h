/// Attention over compressed rows, a part of a layer (DeepSeek V4): one row per position is key and value of all heads.
/// A query sees the last positions as they are and those before them compressed, in some layers only those compressed
/// rows that an index chooses. Its config, its weights, its arrays in a step, and its run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/compressor_operations.h"
#include "kernels/device_memory.h"
#include "kernels/kv.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/batch_rows.h"
#include "model/kv_place.h"
#include "model/parts/norm.h"
#include "model/parts/rope.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
class LowRankRows;
}  // namespace cairn::kernels

namespace cairn::model {

class WeightLoader;

/// V4.1: compressed rows are chosen in two steps, blocks of them by one layer and rows of these blocks by later ones.
enum class Candidates { kNone, kFinds, kReads };

/// Ways to turn: in layers without compressed rows, and in the others. What attention has gathered is turned back.
enum class CompressedRope : int32_t { kWindow, kWindowBack, kCompressed, kCompressedBack };

/// What differs between layers.
struct CompressedLayerConfig {
  int32_t ratio = 0;        ///< positions per compressed row; 0: the layer has none and sees its window alone
  bool indexed = false;     ///< chooses the compressed rows that it sees
  bool makes_rows = false;  ///< compressed ones, and those of an index if they are chosen from
  int32_t rows_of = -1;     ///< the layer whose compressed rows it sees, itself or one before it
  Candidates candidates = Candidates::kNone;
};

/// The same in all layers.
struct CompressedAttentionConfig {
  /// V4.1: layers share compressed rows and their choice, and rounding and norms differ.
  bool is_v41 = false;
  int64_t embedding = 0;
  int32_t context_tokens = 0;  ///< of this run
  NormConfig norm;
  int32_t heads = 0;
  int32_t head_dim = 0;   ///< of queries, and of the row that is key and value of all heads
  int32_t rope_dims = 0;  ///< last elements of a head that turn
  int32_t window = 0;
  int64_t q_lora_rank = 0;
  int32_t output_groups = 0;
  int64_t output_rank = 0;  ///< of a group

  int32_t index_heads = 0;
  int32_t index_dim = 0;
  int32_t index_rows = 0;  ///< compressed rows that an indexed layer sees at most

  int32_t candidate_blocks = 0;  ///< that later layers choose from, at most
  int32_t candidate_rows = 0;    ///< of a block

  std::vector<RopeConfig> ropes;  ///< by CompressedRope

  int32_t outer_dim() const { return heads * head_dim; }
  /// Compressor of a layer with compressed rows, and of its index; biases are the weights'.
  kernels::CompressorParams compressor(const CompressedLayerConfig& layer) const {
    return {layer.ratio, head_dim, layer.indexed && !is_v41};
  }
  kernels::CompressorParams index_compressor(const CompressedLayerConfig& layer) const {
    return {layer.ratio, index_dim, true};
  }
};

/// Makes compressed rows. `inputs` gives [values | scores], `biases` are [ratio, width].
struct CompressorWeights {
  Linear values;
  Linear scores;
  kernels::Buffer biases;
  Norm norm;
};

struct CompressedAttentionWeights {
  Linear query_down;
  Norm query_norm;
  Linear query_up;
  Linear key_value;
  Norm key_value_norm;
  kernels::Buffer sinks;
  Linear output_groups;  ///< [groups, output_rank, heads of a group * head_dim]
  Linear output;
  std::unique_ptr<CompressorWeights> compressor;  ///< of layers with compressed rows
  Linear index_query;                             ///< of indexed layers, as the next two
  Linear index_weights;
  std::unique_ptr<CompressorWeights>
      index_compressor;  ///< in V4.1 of layers that make compressed rows, from these: values and norm

  /// The tensors of the layer whose names begin with `prefix`. Errors: the loader's.
  static Result<CompressedAttentionWeights> load(WeightLoader& loader, const std::string& prefix,
                                                 const CompressedAttentionConfig& config,
                                                 const CompressedLayerConfig& layer);
};

/// Where a layer's rows are in the layout; what it does not have is nowhere.
struct CompressedPlaces {
  KvPlace window;      ///< the last positions, as they are
  KvPlace compressed;  ///< one row for `ratio` positions
  KvPlace values;      ///< what compressed rows are made from
  KvPlace scores;
  KvPlace index;  ///< one row for `ratio` positions
  KvPlace index_values;
  KvPlace index_scores;
};

/// Adds the rows of a layer to the layout, on one device. `window` is CompressedAttentionConfig::window, or more in
/// layers that draft. `before` has the places of the layers before this one, whose compressed rows it may see.
CompressedPlaces add_compressed_kv(const CompressedAttentionConfig& config, const CompressedLayerConfig& layer,
                                   int32_t window, int32_t device, std::span<const CompressedPlaces> before,
                                   cache::KvLayout& layout);

/// The ways to turn of layers without compressed rows, then of the others: each there and back.
void add_compressed_ropes(const RopeParams& params, CompressedAttentionConfig& config);

/// Arrays of a step for R rows.
struct CompressedAttentionActivations {
  float* query_low = nullptr;
  float* query = nullptr;   ///< [R, heads, head_dim]
  float* latent = nullptr;  ///< [R, head_dim]
  float* attended = nullptr;
  float* grouped = nullptr;          ///< [R, output_groups, output_rank]
  int32_t* group_numbers = nullptr;  ///< [R, output_groups]: 0, 1, ... in each row
  float* values = nullptr;           ///< [R, width], what compressed rows are made from
  float* scores = nullptr;
  float* index_values = nullptr;
  float* index_scores = nullptr;
  float* compressed = nullptr;     ///< [R, max(head_dim, index_dim)]
  float* index_query = nullptr;    ///< [R, index_heads, index_dim]
  float* index_weights = nullptr;  ///< [R, index_heads]
  int32_t* chosen = nullptr;       ///< [R, index_rows]
  int32_t* candidates = nullptr;   ///< [R, candidate_blocks], if a layer chooses among them
  RopeTables ropes;
  float* compressed_ropes = nullptr;  ///< [ratios, R, rope_dims], of the compressed rows that the step completes

  void add_to(ActivationArena& arena, const CompressedAttentionConfig& config,
              std::span<const CompressedLayerConfig> layers, int64_t rows);
};

/// Rows that are computed as blocks of drafts: each sees its block to the end.
struct DraftBlocks {
  std::span<const kernels::AttentionSlice> slices;  ///< each row as the last of its block
  int32_t rows = 0;                                 ///< of a block; 0: there are none
};

/// The attention of all layers, in the step in progress.
class CompressedAttention {
 public:
  /// Adds what it needs of the backend.
  static void add_work(const CompressedAttentionConfig& config, std::span<const CompressedLayerConfig> layers,
                       int64_t rows, kernels::WorkspaceSizes& sizes);
  /// `config` outlives this, and so does the backend, which has MlaOperations and CompressorOperations. `rounding`:
  /// of rows and index queries, as in training.
  CompressedAttention(kernels::Backend& backend, const CompressedAttentionConfig& config, bool rounding);
  /// The arrays, once they are allocated, for steps of at most `rows`. Errors: kOutOfMemory.
  Result<void> prepare(const CompressedAttentionActivations& activations, std::span<const CompressedLayerConfig> layers,
                       int64_t rows);

  /// Rows, pages and adapters (null: none) of a step, which outlive it.
  void begin_step(const BatchRows& batch, const cache::PagePool& pool, kernels::LowRankRows* adapters);
  void compute_ropes() const;
  /// x [rows, embedding] to `out` of the same shape.
  void run(const CompressedLayerConfig& layer, const CompressedAttentionWeights& weights,
           const CompressedPlaces& places, const float* x, float* out, const DraftBlocks& blocks = {});
  /// Makes and stores the keys of the window alone.
  void store_keys(const CompressedAttentionWeights& weights, const CompressedPlaces& places, const float* x);

 private:
  /// The compressed rows of one ratio that a step completes.
  struct Completed {
    int32_t ratio = 0;
    std::vector<int32_t> positions;  // where they begin
    std::vector<int32_t> ends;       // rows of the step that complete them
  };
  /// A layer in the step.
  struct Layer {
    const CompressedLayerConfig& config;
    const CompressedAttentionWeights& weights;
    const CompressedPlaces& places;
  };

  const float* rope(CompressedRope which) const { return activations_.ropes.table(static_cast<int32_t>(which)); }
  const float* compressed_rope(int32_t ratio) const;
  std::span<const int32_t> completed_ends(int32_t ratio) const;
  void project(const Layer& layer, const float* x);
  void store_window(const CompressedPlaces& places);
  kernels::KvView view(const KvPlace& place) const;
  void store(const KvPlace& place, const float* rows);
  /// activations_.compressed = the rows that the step completes, normalised and turned.
  void compress_rows(const kernels::CompressorParams& params, const CompressorWeights& weights, const KvPlace& values,
                     const KvPlace& scores);
  void compress(const Layer& layer);
  void compress_index(const Layer& layer);
  /// V4.1: compressed rows and those of the index, for the layers that see them.
  void make_shared_rows(const Layer& layer);
  void choose(const Layer& layer);
  void attend(const Layer& layer, const DraftBlocks& blocks);
  void turn_last(const float* table, float* x, int64_t rows, int32_t heads, int32_t head_dim);

  kernels::Backend& backend_;
  const CompressedAttentionConfig& config_;
  const bool rounding_;
  CompressedAttentionActivations activations_;
  int64_t rows_max_ = 0;
  kernels::Buffer no_biases_;
  // What belongs to the step; reserved once.
  const BatchRows* batch_ = nullptr;
  const cache::PagePool* pool_ = nullptr;
  kernels::LowRankRows* adapters_ = nullptr;
  int32_t rows_ = 0;
  std::vector<Completed> completed_;  // per ratio
};

}  // namespace cairn::model
