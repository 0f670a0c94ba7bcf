/// An encoder model in numbers and choices, as config.h has them for decoders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/embedder.h"
#include "model/metadata_reader.h"

namespace cairn::model {

/// Where a layer has norms, around attention and around its feed-forward.
enum class NormPlacement {
  kPostLn,    ///< x = norm(x + block(x)), as in BERT
  kPreLn,     ///< x += block(norm(x)), and a norm after the last layer
  kSandwich,  ///< x += norm(block(norm(x))), and a norm after the last layer
};

struct EncoderLayerConfig {
  int32_t window = 0;      ///< > 0: position p sees positions at most window / 2 away, on both sides
  int32_t rope = kNoRope;  ///< index into EncoderConfig::ropes, or kNoRope
  bool routed = false;     ///< feed-forward of experts
};

struct EncoderConfig {
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< divides heads
  int32_t head_dim = 0;
  int32_t context_trained = 0;
  int32_t context_tokens = 0;  ///< of this run, at most the trained one
  float embedding_scale = 1;
  float attention_scale = 1;
  Pooling pooling = Pooling::kMean;

  NormPlacement norms = NormPlacement::kPostLn;
  NormConfig norm{.kind = NormKind::kLayerNorm};
  bool embedding_norm = true;  ///< before the first layer
  bool first_norm = true;      ///< the first layer has one before attention; only with norms before blocks
  bool qk_norm = false;        ///< queries and keys are RMS-normalised, each head by itself
  FeedForwardConfig feed_forward{.activation = kernels::Activation::kGeluErf};
  bool learned_positions = false;    ///< a vector for every position is added to the token's
  int64_t token_types = 0;           ///< rows of the table of token types; 0: none
  std::optional<MoeConfig> experts;  ///< which have no gate and no shared expert
  std::vector<RopeConfig> ropes;
  std::vector<EncoderLayerConfig> layers;
  std::vector<float> slopes;  ///< AttentionParams::slopes, or empty

  /// What a pooled row goes through, one after the other (sentence-transformers' Dense): outputs of dense_2 and
  /// dense_3; 0: there is no such layer.
  int64_t dense_2 = 0;
  int64_t dense_3 = 0;

  /// The head that ranks reads the row of `label_pooling`: labels(norm(act(dense row))).
  int64_t labels = 0;  ///< its outputs; 0: there is no such head
  Pooling label_pooling = Pooling::kCls;
  bool label_dense = false;                             ///< it has a layer before them
  std::optional<kernels::Activation> label_activation;  ///< of that layer; none: tanh
  bool label_norm = false;                              ///< and a layer norm

  std::vector<std::string> unread_keys;  ///< MetadataReader::unread()

  int64_t query_width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
  RopeSizes rope_sizes() const { return {head_dim, context_trained, context_tokens}; }
  /// Attention of a layer, without slopes.
  AttentionConfig attention(const EncoderLayerConfig& layer) const;
  /// Elements of a vector.
  int64_t dimensions() const { return dense_3 > 0 ? dense_3 : dense_2 > 0 ? dense_2 : embedding; }
};

/// Completes a config that holds the numbers that all encoders have.
using ReadEncoderConfig = Result<void> (*)(const MetadataReader& keys, EncoderConfig& config);

/// Errors: those of load_model.
Result<EncoderConfig> read_encoder_config(const gguf::Reader& file, std::string_view architecture,
                                          ReadEncoderConfig complete, int32_t context_tokens);

/// The file's main rope in all layers, over halves.
Result<void> read_encoder_rope(const MetadataReader& keys, EncoderConfig& config);
/// Windows of attention.sliding_window positions in the layers that `windows` says, rotated by rope.freq_base_swa, else
/// `base`; as many as there are layers.
Result<void> read_encoder_windows(const MetadataReader& keys, const std::vector<bool>& windows, double base,
                                  EncoderConfig& config);

/// Slopes of ALiBi (Press et al. 2022): geometric from 2^(-8 / heads) on; where the heads are no power of two, those of
/// the power below, then every other one of the power above.
std::vector<float> alibi_slopes(int32_t heads);

}  // namespace cairn::model
