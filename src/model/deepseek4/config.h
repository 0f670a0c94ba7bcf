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
#include "model/config.h"
#include "model/parts/compressed_attention.h"
#include "model/parts/engram.h"
#include "model/parts/hyper_connections.h"
#include "model/parts/rope.h"

namespace cairn::deepseek4 {

struct LayerConfig : CompressedLayerConfig {
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

struct ModelConfig : CompressedAttentionConfig {
  int64_t vocabulary = 0;
  int32_t context_trained = 0;
  Pooling pooling = Pooling::kLast;  ///< of hidden rows, for embeddings

  int32_t streams = 0;  ///< HyperConnectionConfig's, as the next two
  int32_t stream_rounds = 0;
  float stream_epsilon = 0;

  MoeConfig experts;

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

  /// What attention has of each layer.
  std::vector<CompressedLayerConfig> attention_layers() const { return {layers.begin(), layers.end()}; }
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

struct LayerPlaces : CompressedPlaces {
  KvPlace streams;  ///< of the MTP layer: the streams that it starts from
  KvPlace classes;  ///< of the first layer, if there are engrams: classes of a position's token and those before it
};

/// Groups: windows, compressed rows of all layers, and for each ratio what compressed rows are made from.
KvLayout kv_layout_of(const ModelConfig& config, KvType type, std::vector<LayerPlaces>& places);

}  // namespace cairn::deepseek4
