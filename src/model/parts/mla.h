/// Attention over latent rows (MLA), a part of a layer: one short row per position, from which every head's key and
/// value would be made. Its config, its weights, its arrays in a step, and its run.
///
/// Instead of making keys and values, each head's query is turned into one for rows, and what it has read of rows into
/// its value: both are products with one matrix per head, and rows are all that is kept. With an indexer a query reads
/// the rows that its scores choose (DeepSeek 3.2), or those that an indexer of an earlier layer has chosen (GLM 5.2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/kv.h"
#include "kernels/workspace_sizes.h"
#include "model/activation_arena.h"
#include "model/parts/attention.h"
#include "model/parts/norm.h"
#include "model/weights/linear.h"

namespace cairn::kernels {
class Backend;
}  // namespace cairn::kernels

namespace cairn::model {

class MetadataReader;
class WeightLoader;

/// Choosing the positions that attention reads (DeepSeek 3.2, GLM 5).
struct IndexerConfig {
  kernels::RopeStyle rope_style = kernels::RopeStyle::kNeoX;  ///< of the first elements of its queries and keys
  int32_t heads = 0;
  int32_t key_dim = 0;
  int32_t most = 0;  ///< positions
  float norm_epsilon = 0;
};

/// The same in all layers of a model.
struct MlaConfig {
  int32_t heads = 0;
  int32_t value_dim = 0;  ///< of a head
  float scale = 1;
  float norm_epsilon = 0;
  int64_t q_lora_rank = 0;  ///< queries are made through so many elements; 0: directly
  int32_t rank = 0;         ///< of a row
  int32_t rope = 0;         ///< elements of a row that turn; which do not, in a layer without a rope
  int32_t nope = 0;         ///< elements of a head's query that do not turn
  std::optional<IndexerConfig> indexer;

  int32_t row_dim() const { return rank + rope; }
  int32_t query_dim() const { return nope + rope; }
};

/// attention.q_lora_rank, kv_lora_rank, key_length_mla and value_length_mla; of each row the last `rope_dims` elements
/// turn, if there is a rope. Files for whole keys and values (attn_kv_b) give a head's sizes as key_length and
/// value_length, where others give those of a row. Error: kCorruptFile.
Result<MlaConfig> read_mla(const MetadataReader& keys, int32_t rope_dims);

/// Arrays of a step, [R, ...] for R rows.
struct MlaActivations {
  float* query_low = nullptr;     ///< q_lora_rank
  float* query = nullptr;         ///< heads * query_dim
  float* query_nope = nullptr;    ///< heads * nope
  float* heads_rank = nullptr;    ///< heads * rank: queries for the latent part of rows; then what heads have read
  float* query_rows = nullptr;    ///< heads * row_dim: queries for rows
  float* row = nullptr;           ///< row_dim
  float* row_rank = nullptr;      ///< rank
  int32_t* heads = nullptr;       ///< heads: 0, 1, ...
  float* index_query = nullptr;   ///< indexer heads * key_dim
  float* index_key = nullptr;     ///< key_dim
  float* index_shares = nullptr;  ///< indexer heads
  int32_t* chosen = nullptr;      ///< indexer's most; stays for later layers of the step
  float* attended = nullptr;      ///< heads * value_dim

  void add_to(ActivationArena& arena, const MlaConfig& config, int64_t rows);
  /// Once they are allocated.
  void write_heads(kernels::DeviceMemory& device, const MlaConfig& config, int64_t rows) const;
};

/// Where the layer keeps its rows, and the keys of its indexer if it has one.
struct MlaStep {
  AttentionStep attention;  ///< `kv` has the rows
  kernels::KvView index_keys;
};

class Mla {
 public:
  /// The tensors of the layer whose names begin with `prefix`, in a residual stream of `embedding` elements. `chooses`:
  /// by an indexer of its own; otherwise it reads the rows that the layer before has chosen, if any. Older files have
  /// one tensor, attn_kv_b, for keys and values: it is taken apart, as float32. Adapters may change either that tensor
  /// or the two, whichever the model's file has. Errors: the loader's.
  static Result<std::unique_ptr<Mla>> load(WeightLoader& loader, const std::string& prefix, int64_t embedding,
                                           const MlaConfig& config, bool chooses);
  /// Adds what run() needs of the backend.
  static void add_work(const MlaConfig& config, int64_t rows, int32_t context_tokens, kernels::WorkspaceSizes& sizes);

  /// x [rows, embedding] to `out` of the same shape. The backend has MlaOperations.
  void run(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step, const float* x,
           float* out) const;

 private:
  Result<void> load_joint(WeightLoader& loader, const std::string& prefix);
  Result<void> load_indexer(WeightLoader& loader, const std::string& prefix, int64_t embedding);
  void project(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step, const float* x) const;
  void choose(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const;
  void make_queries(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const;
  void store_row(kernels::Backend& backend, const MlaActivations& activations, const MlaStep& step) const;

  /// The weights of the indexer; empty in layers without one.
  struct Indexer {
    Linear query;  // from the normalised low-rank query
    Linear key;
    Norm key_norm;
    Linear shares;  // of the heads
  };

  MlaConfig config_;
  bool chooses_ = false;
  Linear query_low_;  // empty if the query is made directly
  Norm query_norm_;   // of what query_low_ gives
  Linear query_;
  Linear row_;
  Norm row_norm_;  // of its first `rank` elements
  Linear key_;     // heads as experts, [rank, nope]: a head's query to one for rows
  Linear value_;   // heads as experts, [value_dim, rank]: what a head has read to its value
  Indexer indexer_;
  Linear output_;
};

}  // namespace cairn::model
