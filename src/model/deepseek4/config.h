/// DeepSeek V4 and V4.1 in numbers: read from metadata before any weight is touched.
///
/// Source: the reference engine of DeepSeek V4 (antirez/ds4) and llama.cpp, whose metadata keys these are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/kv_layout.h"
#include "gguf/reader.h"
#include "kernels/compressor_operations.h"
#include "model/config.h"
#include "model/parts/engram.h"
#include "model/parts/hyper_connections.h"
#include "model/parts/rope.h"

namespace cairn::deepseek4 {

/// V4.1: compressed rows are chosen in two steps, blocks of them by one layer and rows of these blocks by later ones.
enum class Candidates { kNone, kFinds, kReads };

/// Ways to turn: in layers without compressed rows, and in the others. What attention has gathered is turned back.
enum class Rope : int32_t { kWindow, kWindowBack, kCompressed, kCompressedBack };

struct LayerConfig {
  int32_t ratio = 0;        ///< positions per compressed row; 0: the layer has none and sees its window alone
  bool indexed = false;     ///< chooses the compressed rows that it sees
  bool makes_rows = false;  ///< compressed ones, and those of an index if they are chosen from
  int32_t rows_of = -1;     ///< the layer whose compressed rows it sees, itself or one before it
  Candidates candidates = Candidates::kNone;
  int32_t engram = -1;  ///< its number among the layers with one, or -1
  bool hashed = false;  ///< experts are chosen by the token, not by the router
  float clamp = 0;      ///< of the gated product, in routed experts
  float shared_clamp = 0;
};

/// The drafting head of V4.1, and of V4 since July 2026: see dspark_weights.h.
struct DsparkConfig {
  int32_t stages = 0;            ///< its layers, the last of ModelConfig::layers
  int32_t block = 0;             ///< rows that are computed at once: of the last token, and of noise behind it
  TokenId noise{};               ///< stands in the block for tokens that are not known yet
  std::vector<int32_t> targets;  ///< layers of the model whose input it reads; main_layers(): what the last one leaves
  int64_t markov_rank = 0;
  MoeConfig experts;
};
/// Largest block: its rows are drafts, and no answer goes on for so many that are right.
inline constexpr int32_t kDsparkBlockMax = 32;
inline constexpr int32_t kDsparkStagesMax = 16;
inline constexpr int32_t kDsparkTargetsMax = 16;

struct ModelConfig {
  /// V4.1: layers share compressed rows and their choice, a block's share of each stream is found by the block before
  /// it, and rounding and norms differ.
  bool is_v41 = false;
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  int32_t context_trained = 0;
  int32_t context_tokens = 0;        ///< of this run
  Pooling pooling = Pooling::kLast;  ///< of hidden rows, for embeddings
  NormConfig norm;

  int32_t streams = 0;  ///< HyperConnectionConfig's, as the next two
  int32_t stream_rounds = 0;
  float stream_epsilon = 0;

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

  MoeConfig experts;

  std::vector<RopeConfig> ropes;  ///< by Rope
  std::vector<LayerConfig> layers;
  EngramConfig engram;
  bool has_mtp = false;  ///< the last of `layers` drafts the token after the next one, see mtp_weights.h
  std::optional<DsparkConfig> dspark;

  bool drafts() const { return has_mtp || dspark.has_value(); }
  size_t main_layers() const { return layers.size() - (has_mtp ? 1 : 0) - (dspark ? dspark->stages : 0); }
  const MoeConfig& experts_of(size_t layer) const {
    return dspark && layer >= main_layers() ? dspark->experts : experts;
  }

  /// Experts that a row chooses, in the layer where it chooses most.
  int32_t experts_used() const { return std::max(experts.route.used, dspark ? dspark->experts.route.used : 0); }

  HeadConfig head() const { return {.vocabulary = vocabulary, .embedding = embedding}; }
  HyperConnectionConfig hyper_connections() const {
    return {.streams = streams,
            .rounds = stream_rounds,
            .epsilon = stream_epsilon,
            .embedding = embedding,
            .norm_epsilon = norm.epsilon,
            .carried = is_v41,
            .averaged = dspark.has_value()};
  }

  int32_t outer_dim() const { return heads * head_dim; }
  /// Compressor of a layer with compressed rows, and of its index; biases are the weights'.
  CompressorParams compressor(const LayerConfig& layer) const {
    return {layer.ratio, head_dim, layer.indexed && !is_v41};
  }
  CompressorParams index_compressor(const LayerConfig& layer) const { return {layer.ratio, index_dim, true}; }
};

/// Adds a way to turn and the one that turns back, of the first `dims` elements.
void add_ropes(const RopeParams& params, std::vector<RopeConfig>& ropes);

/// Positions per row of layers that choose among their compressed rows; those with other ratios see them all.
inline constexpr int32_t kIndexedRatio = 4;

inline constexpr std::string_view kArchitecture = "deepseek4";
/// `context_tokens` as in ModelOptions. Errors: those of load_model.
Result<ModelConfig> describe(const gguf::Reader& file, int32_t context_tokens);

inline constexpr std::string_view kArchitecture41 = "deepseek41";
/// Whether the file is of V4.1, which the first ones do not tell by their architecture.
bool is_v41(const gguf::Reader& file);
/// The same as describe() for V4.1. Which layers make compressed rows, and which choose, is told by their tensors.
Result<ModelConfig> describe_v41(const gguf::Reader& file, int32_t context_tokens);

/// Where a layer's rows are in the layout; what it does not have is nowhere.
struct LayerPlaces {
  KvPlace window;      ///< the last positions, as they are
  KvPlace compressed;  ///< one row for `ratio` positions
  KvPlace values;      ///< what compressed rows are made from
  KvPlace scores;
  KvPlace index;  ///< one row for `ratio` positions
  KvPlace index_values;
  KvPlace index_scores;
  KvPlace streams;  ///< of the MTP layer: the streams that it starts from
  KvPlace classes;  ///< of the first layer, if there are engrams: classes of a position's token and those before it
};

/// Groups: windows, compressed rows of all layers, and for each ratio what compressed rows are made from.
KvLayout kv_layout_of(const ModelConfig& config, KvType type, std::vector<LayerPlaces>& places);

}  // namespace cairn::deepseek4
