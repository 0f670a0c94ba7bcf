/// A decoder model in numbers and choices, before any weight is touched: read from metadata by read_decoder_config(),
/// with what is peculiar to an architecture filled in by arch/<name>.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "cache/kv_layout.h"
#include "kernels/operation_params.h"
#include "model/kv_place.h"
#include "model/metadata_reader.h"
#include "model/parts/attention.h"
#include "model/parts/compressed_attention.h"
#include "model/parts/engram.h"
#include "model/parts/experts.h"
#include "model/parts/feed_forward.h"
#include "model/parts/head.h"
#include "model/parts/mla.h"
#include "model/parts/norm.h"
#include "model/parts/per_layer_input.h"
#include "model/parts/recurrent/config.h"
#include "model/parts/residual.h"
#include "model/parts/rope.h"
#include "model/pooling.h"

namespace cairn::model {

struct ModelOptions;
struct PipelineStage;

inline constexpr int32_t kNoRope = -1;
inline constexpr int32_t kOwnKv = -1;

struct LayerConfig {
  int32_t window = 0;  ///< > 0: position p sees positions > p - window only
  int32_t rope = 0;    ///< index into DecoderConfig::ropes, or kNoRope
  /// The next four are the layer's; 0, while a config is read, stands for the DecoderConfig's.
  int32_t kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int64_t feed_forward_length = 0;
  /// An earlier layer whose keys and values it reads, as it has none itself, or kOwnKv.
  int32_t kv_layer = kOwnKv;
  /// It has an indexer, if the model does; otherwise it reads the positions that the layer before it reads.
  bool indexer = true;
  bool value_is_key = false;  ///< values are what keys are made from, before these are normalised and rotated
  bool routed = false;        ///< feed-forward of experts
  bool qk_norm = true;        ///< DecoderConfig::qk_norm
  bool temperature = true;    ///< queries grow with the position, if the model's do
  Mixer mixer = Mixer::kAttention;
  bool feed_forward = true;  ///< whether one follows the mixer
  CompressedLayerConfig compressed{};
  int32_t engram = -1;          ///< its number among the layers with one, or -1
  bool hashed_experts = false;  ///< experts are chosen by the token, not by the router
  /// FeedForwardConfig::clamp of its routed experts and of the shared one, where layers differ.
  std::optional<float> clamp = {};
  std::optional<float> shared_clamp = {};

  bool attends() const { return mixer == Mixer::kAttention || mixer == Mixer::kAttentionAndMamba2; }
  /// Whether it keeps a state.
  bool recurs() const {
    return mixer != Mixer::kAttention && mixer != Mixer::kCompressedAttention && mixer != Mixer::kNone;
  }
};

/// DSpark, the drafting head of DeepSeek V4.1, and of V4 since July 2026: see decoder/dspark_weights.h.
struct DsparkConfig {
  int32_t stages = 0;            ///< its layers, behind those of the model
  int32_t block = 0;             ///< rows that are computed at once: of the last token, and of noise behind it
  TokenId noise{};               ///< stands in the block for tokens that are not known yet
  std::vector<int32_t> targets;  ///< layers of the model whose input it reads; their number: what the last one leaves
  int64_t markov_rank = 0;
  LayerConfig layer;  ///< each of its layers
  MoeConfig experts;
};
/// Largest block: its rows are drafts, and no answer goes on for so many that are right.
inline constexpr int32_t kDsparkBlockMax = 32;
inline constexpr int32_t kDsparkStagesMax = 16;
inline constexpr int32_t kDsparkTargetsMax = 16;

struct DecoderConfig {
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  // What can differ between layers is in LayerConfig; here are those of layers that have none of their own, or the
  // largest.
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< divides heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t context_trained = 0;
  int32_t context_tokens = 0;  ///< of this run, at most the trained one

  float embedding_scale = 1;
  float logit_scale = 1;
  float final_logit_softcap = 0;  ///< > 0: logits are cap * tanh(logit / cap)
  float attention_scale = 1;
  float attention_logit_softcap = 0;  ///< the same for attention scores
  bool chunked_windows = false;       ///< windows lie at the multiples of their length (AttentionParams::chunked)
  /// Queries at position p are multiplied by 1 + temperature_scale * ln(1 + floor((p + temperature_offset) /
  /// temperature_length)); temperature_scale 0: they are not.
  float temperature_scale = 0;
  int32_t temperature_length = 1;
  int32_t temperature_offset = 0;

  ResidualConfig residual;
  FeedForwardConfig feed_forward;
  NormConfig norm;
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_after_rope = false;  ///< queries and keys are normalised once they are rotated, not before
  /// Names of the norms before attention and feed-forward within a layer. An empty one: there is none.
  std::string_view attention_norm = "attn_norm";
  std::string_view feed_forward_norm = "ffn_norm";
  std::string_view output_norm = "output_norm";
  bool value_norm = false;           ///< values are normalised per head: RMS, without a weight
  bool layer_output_scale = false;   ///< behind each layer the residual stream is multiplied by layer_output_scale
  int64_t per_layer_input = 0;       ///< > 0: elements of a token's input that each layer has (PerLayerInputs)
  bool learned_positions = false;    ///< position_embd is added to the embeddings of tokens
  bool attention_sinks = false;      ///< a score without a value joins each softmax: attn_sinks
  bool output_is_embedding = false;  ///< even if the file had an output matrix
  /// attn_q has for each head the rows of its query, then as many of a gate: what the head has read is multiplied by
  /// the gate's sigmoid.
  bool gated_attention = false;

  /// Which hidden row is the embedding: the last one has seen the whole text.
  Pooling pooling = Pooling::kLast;
  int64_t labels = 0;  ///< outputs of a head that ranks: 1, or 2 for yes and no; 0: none

  std::optional<MoeConfig> experts;
  std::optional<MlaConfig> mla;                         ///< of all layers that attend
  std::optional<CompressedAttentionConfig> compressed;  ///< of all layers with Mixer::kCompressedAttention
  EngramConfig engram;
  std::optional<RecurrentConfig> recurrent;
  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;
  int32_t mtp_layers = 0;  ///< behind those in the file
  /// The layer of the MTP module, the first of those behind `layers`; nullopt: there is no module, or no use for it.
  std::optional<LayerConfig> mtp_layer;
  std::optional<DsparkConfig> dspark;    ///< nullopt: there is no drafting head, or no use for it
  std::vector<std::string> unread_keys;  ///< MetadataReader::unread()

  /// Rows of the residual stream are kept, of one stream normalised: drafts start from them.
  bool keeps_rows = false;

  /// A layer by its number in the file; behind the model's are those that draft.
  const LayerConfig& layer(size_t number) const {
    if (number < layers.size()) return layers[number];
    return dspark ? dspark->layer : *mtp_layer;
  }
  bool drafts() const { return keeps_rows || dspark.has_value(); }
  const MoeConfig& experts_of(size_t number) const {
    return dspark && number >= layers.size() ? dspark->experts : *experts;
  }
  /// The most experts of all layers, and the most that a row chooses; none if no layer has any.
  MoeConfig most_experts() const;
  /// A layer with attention over compressed rows like the last one that sees its window alone, as those that draft do.
  LayerConfig window_layer() const;
  /// What attention over compressed rows has of each layer of the model.
  std::vector<CompressedLayerConfig> compressed_layers() const;

  RopeSizes rope_sizes() const { return {key_dim, context_trained, context_tokens}; }
  /// Attention of one of the layers that attend, but not over latent rows.
  AttentionConfig attention(const LayerConfig& layer) const;

  /// The inputs of the layers of a range.
  PerLayerInputConfig per_layer_inputs(int32_t begin, int32_t end) const;

  HeadConfig head() const { return {vocabulary, embedding, logit_scale, final_logit_softcap}; }

  /// Elements of a row in the layer that has most.
  int64_t query_elements() const;
  int64_t key_elements() const;
  int64_t value_elements() const;
  int64_t attended_elements() const;
  int32_t head_dim() const;              ///< of keys or values
  int64_t dense_inner_elements() const;  ///< of a dense feed-forward; 0 if there is none
};

/// Reads all of a config, of a file whose keys are not those that the others have.
using ReadWholeConfig = Result<DecoderConfig> (*)(const gguf::Reader& file, int32_t context_tokens);

/// Completes a config that holds the common numbers, one layer entry per layer, and llama's choices. At the end
/// every layer's rope is kNoRope or an index into ropes.
using ReadDecoderConfig = Result<void> (*)(const MetadataReader& keys, DecoderConfig& config);

/// What an architecture adds to what all have.
struct DecoderReader {
  std::string_view architecture;
  ReadDecoderConfig complete = nullptr;
  bool hybrid = false;              ///< layers may be without attention or feed-forward
  ReadWholeConfig whole = nullptr;  ///< in place of all else
};

/// Everything but tensors' own shapes is checked. `context_tokens` as in ModelOptions. Errors: those of load_model.
Result<DecoderConfig> read_decoder_config(const gguf::Reader& file, const DecoderReader& reader,
                                          int32_t context_tokens);

/// Rows of the token table, which must agree with what else the file says of the vocabulary.
Result<int64_t> read_vocabulary(const MetadataReader& keys);
/// Tokens that a sequence may have when `wanted` are (ModelOptions::context_tokens). Error: kInvalidArgument.
Result<int32_t> context_of_run(int32_t trained, int32_t wanted);

/// Windows of `window` positions where the pattern says so (MetadataReader::window_pattern), rotated by rope
/// `window_rope`.
Result<void> read_windows_config(const MetadataReader& keys, int64_t window, int64_t period, int32_t window_rope,
                                 DecoderConfig& config);

/// Windows of attention.sliding_window positions in all layers, unless that is 0 or no less than the context. `missing`
/// stands for a missing key.
Result<void> read_window_everywhere_config(const MetadataReader& keys, int64_t missing, DecoderConfig& config);

// -- The shapes of hybrids: layers without attention, without a feed-forward, or with a state; hybrid_config.cpp.
/// feed_forward_length, where it may be an array: layers of 0 have no feed-forward. With experts the key may be
/// missing.
Result<void> read_hybrid_feed_forward(const MetadataReader& keys, DecoderConfig& config);
/// attention.head_count and head_count_kv, where they may be arrays: layers of 0 have no attention, and their mixer
/// becomes Mixer::kNone. No heads at all: all layers are such.
Result<void> read_hybrid_heads(const MetadataReader& keys, DecoderConfig& config);
/// ssm.*, for Gated DeltaNet and Mamba-2.
Result<void> read_state_config(const MetadataReader& keys, DecoderConfig& config);
/// The layers that have no attention get this mixer.
void mix_otherwise_by(Mixer mixer, DecoderConfig& config);

/// Experts by expert_count, expert_used_count and the width keys, in all layers but those that
/// leading_dense_block_count counts; none if expert_count is 0 or missing and they are not `required`. The caller sets
/// what is not in the metadata.
Result<void> read_experts_config(const MetadataReader& keys, bool required, DecoderConfig& config);

/// Completes what read_experts_config() has read by read_routing(), if there are experts.
Result<void> read_routing_config(const MetadataReader& keys, const RoutingDefaults& missing, DecoderConfig& config);

/// Leaves experts in every interleave_moe_layer_step-th of the layers with experts: those of index i with i + 1 a
/// multiple of it.
Result<void> read_expert_step_config(const MetadataReader& keys, DecoderConfig& config);

/// Takes the MTP layers at the end, which nextn_predict_layers counts, out of `layers`.
Result<void> leave_out_mtp_layers(const MetadataReader& keys, DecoderConfig& config);

/// Sets mtp_layer, if there are MTP layers: attention like the last layer that has it, and then experts, if the model
/// has them, or a dense feed-forward.
void describe_mtp_layer(DecoderConfig& config);

/// Attention over latent rows, by read_mla(). Sets `mla` and what follows from it.
Result<void> read_mla_config(const MetadataReader& keys, int32_t rope_dims, DecoderConfig& config);

/// Queries that grow with the position, by attention.temperature_scale and _length. `missing` stands for a missing
/// scale.
Result<void> read_temperature_config(const MetadataReader& keys, float missing, DecoderConfig& config);

/// Where a layer's state is: bytes from the beginning of a slot.
struct StatePlace {
  int32_t group = 0;
  int64_t offset = 0;
};

/// Where keys, values and states of all layers lie. A layer without keys, or without a state, has a place that is not
/// to be used.
struct KvPlan {
  cache::KvLayout layout;
  std::vector<KvPlace> places;               ///< per layer of the model; behind them those of layers that draft
  std::vector<CompressedPlaces> compressed;  ///< the same of layers over compressed rows; none in other models
  std::vector<StatePlace> states;            ///< per layer of the model
  KvPlace mtp_rows;                          ///< what drafts start from: rows of the residual stream
  std::vector<KvPlace> engram_classes;       ///< per device, if it has engrams: classes of a token and those before it
};

/// On each device one group for layers that see everything, one for those with a window, one for latent ones, one for
/// states; of the options' type, or what the layers' backend keeps for it. Rows of the MTP module have one of their
/// own. Attention over compressed rows has those of CompressedAttention::add_kv().
KvPlan kv_plan_of(const DecoderConfig& config, std::span<const PipelineStage> stages, const ModelOptions& options);

/// Layers [begin, end) of a decoder: all, or those that one of several backends computes.
struct LayerRange {
  int32_t begin = 0;
  int32_t end = 0;

  /// Whether it begins with tokens, and whether it ends with logits.
  bool is_first() const { return begin == 0; }
  bool is_last(const DecoderConfig& config) const { return end == std::ssize(config.layers); }
};

}  // namespace cairn::model
