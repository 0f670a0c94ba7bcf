#include "model/decoder/decoder_weights.h"

#include <cmath>
#include <string>
#include <utility>

#include "model/decoder/dspark_weights.h"
#include "model/decoder/mtp_weights.h"

namespace cairn::model {

namespace {

class LayerLoader {
 public:
  LayerLoader(WeightLoader& loader, const DecoderConfig& config, int32_t layer, std::string prefix)
      : loader_(loader), config_(config), layer_(layer), prefix_(std::move(prefix)) {}

  Result<LayerWeights> load() {
    LayerWeights weights;
    CAIRN_TRY_VOID(load_norms(weights));
    CAIRN_TRY_VOID(load_attention(weights));
    if (layer().engram >= 0) {
      weights.engram = std::make_unique<EngramWeights>();
      CAIRN_TRY(*weights.engram, load_engram(loader_, config_.engram, layer().engram, prefix_));
    }
    if (layer().recurs()) {
      weights.recurrent = std::make_unique<RecurrentWeights>();
      CAIRN_TRY(*weights.recurrent, load_recurrent_weights(loader_, prefix_, layer().mixer, *config_.recurrent));
    }
    if (config_.per_layer_input > 0) {
      CAIRN_TRY(weights.input, LayerInput::load(loader_, prefix_, config_.per_layer_inputs(layer_, layer_ + 1)));
      CAIRN_TRY(weights.input_post_norm, norm("post_norm"));
    }
    if (config_.layer_output_scale) {
      CAIRN_TRY(const std::vector<float> scale, loader_.values(prefix_ + "layer_output_scale", 1, 1));
      if (!scale.empty()) weights.output_scale = scale[0];
    }
    if (!layer().feed_forward) return weights;
    const bool beside = config_.experts && config_.experts->beside_dense;
    if (layer().routed) CAIRN_TRY_VOID(load_experts(config_.experts_of(layer_), weights));
    if (!layer().routed || beside) {
      FeedForwardConfig dense = config_.feed_forward;
      dense.length = layer().feed_forward_length;
      CAIRN_TRY(weights.dense, FeedForward::load(loader_, prefix_ + "ffn_", "", config_.embedding, dense));
    }
    return weights;
  }

 private:
  Result<void> load_attention(LayerWeights& weights) {
    if (layer().mixer == Mixer::kCompressedAttention) {
      weights.compressed = std::make_unique<CompressedAttentionWeights>();
      CAIRN_TRY(*weights.compressed,
                CompressedAttentionWeights::load(loader_, prefix_, *config_.compressed, layer().compressed));
    } else if (layer().attends() && config_.mla) {
      const bool chooses = config_.mla->indexer && layer().indexer;
      CAIRN_TRY(weights.mla, Mla::load(loader_, prefix_, config_.embedding, *config_.mla, chooses));
    } else if (layer().attends()) {
      CAIRN_TRY(weights.attention, Attention::load(loader_, prefix_, config_.embedding, config_.attention(layer())));
    }
    return {};
  }

  Result<void> load_norms(LayerWeights& weights) {
    if (const auto& streams = config_.residual.hyper_connections) {
      CAIRN_TRY(weights.attention_streams, StreamWeights::load(loader_, prefix_ + "hc_attn", *streams));
      CAIRN_TRY(weights.feed_forward_streams, StreamWeights::load(loader_, prefix_ + "hc_ffn", *streams));
    }
    if (config_.residual.pre_norms && layer().mixer != Mixer::kNone) {
      CAIRN_TRY(weights.attention_norm, norm(config_.attention_norm));
    }
    if (config_.residual.pre_norms && layer().feed_forward && !config_.feed_forward_norm.empty()) {
      CAIRN_TRY(weights.feed_forward_norm, norm(config_.feed_forward_norm));
    }
    if (config_.residual.post_norms) {
      CAIRN_TRY(weights.attention_post_norm, norm("post_attention_norm"));
      CAIRN_TRY(weights.feed_forward_post_norm, norm("post_ffw_norm"));
    }
    return {};
  }

  /// A norm of the residual stream.
  Result<Norm> norm(std::string_view name) {
    return Norm::load(loader_, fmt::format("{}{}", prefix_, name), config_.embedding, config_.norm);
  }

  Result<void> load_experts(const MoeConfig& experts, LayerWeights& weights) {
    const int64_t width = config_.embedding;
    if (experts.router_norm) {
      const float factor = 1 / std::sqrt(static_cast<float>(width));
      CAIRN_TRY(kernels::Buffer scale, loader_.vector(prefix_ + "ffn_gate_inp.scale", width, factor));
      weights.router_norm = Norm(std::move(scale), width, config_.norm.epsilon);
    }
    if (experts.beside_dense) {
      CAIRN_TRY(weights.dense_post_norm, norm("post_ffw_norm_1"));
      CAIRN_TRY(weights.routed_norm, norm("pre_ffw_norm_2"));
      CAIRN_TRY(weights.routed_post_norm, norm("post_ffw_norm_2"));
    }
    MoeConfig own = experts;
    if (layer().hashed_experts) own.hashed_tokens = config_.vocabulary;
    FeedForwardConfig routed = config_.feed_forward, shared = config_.feed_forward;
    if (layer().clamp) routed.clamp = layer().clamp;
    if (layer().shared_clamp) shared.clamp = layer().shared_clamp;
    CAIRN_TRY(weights.experts, Experts::load(loader_, prefix_, width, own, routed, shared));
    return {};
  }

  const LayerConfig& layer() const { return config_.layer(layer_); }

  WeightLoader& loader_;
  const DecoderConfig& config_;
  const int32_t layer_;
  const std::string prefix_;
};

// No text has the router's biases for images.
void mark_image_biases(WeightLoader& loader) {
  for (const gguf::Tensor& tensor : loader.file().tensors()) {
    if (tensor.name.ends_with(".exp_probs_b_vl.bias")) loader.mark_used(tensor.name);
  }
}

// A drafting head in the model's file needs no warning where nobody asks for drafts.
void mark_drafting_head(WeightLoader& loader) {
  for (const gguf::Tensor& tensor : loader.file().tensors()) {
    if (tensor.name.starts_with("mtp.")) loader.mark_used(tensor.name);
  }
}

Result<void> load_output(WeightLoader& loader, const DecoderConfig& config, bool is_embedding,
                         DecoderWeights& weights) {
  const auto& streams = config.residual.hyper_connections;
  if (streams && !streams->carried) {
    CAIRN_TRY(weights.output_streams, StreamWeights::load_output(loader, "output_hc", *streams));
  }
  CAIRN_TRY(weights.output_norm, Norm::load(loader, config.output_norm, config.embedding, config.norm));
  if (is_embedding) {
    weights.output.weight = weights.embedding.weight;
  } else {
    CAIRN_TRY(weights.output, loader.linear("output", config.vocabulary, config.embedding));
  }
  if (config.labels > 0) {
    CAIRN_TRY(weights.labels, loader.lookup_table("cls.output", config.labels, config.embedding));
  }
  return {};
}

/// The layers that draft, and what they have beside.
Result<void> load_drafting(WeightLoader& loader, const DecoderConfig& config, const gguf::Reader* drafts,
                           DecoderWeights& weights) {
  if (config.compressed && (!config.dspark || drafts != nullptr)) mark_drafting_head(loader);
  if (!config.mtp_layer && !config.dspark) return {};
  const auto load = config.dspark ? load_dspark_weights : load_mtp_weights;
  if (drafts == nullptr) return load(loader, config, weights);
  // No adapter changes a file of its own.
  WeightLoader others = loader.for_file(*drafts);
  mark_image_biases(others);
  CAIRN_TRY_VOID(load(others, config, weights));
  if (loader.wants(others.bytes())) others.warn_of_unused();
  return {};
}

}  // namespace

Result<LayerWeights> load_layer(WeightLoader& loader, const DecoderConfig& config, int32_t layer, std::string prefix) {
  return LayerLoader(loader, config, layer, std::move(prefix)).load();
}

Result<DecoderWeights> load_decoder_weights(WeightLoader& loader, const DecoderConfig& config, LayerRange range,
                                            const gguf::Reader* drafts) {
  DecoderWeights weights;
  const bool is_last = range.is_last(config);
  const bool output_is_embedding = !config.compressed && (config.output_is_embedding || !loader.has("output.weight"));
  if (range.is_first() || config.per_layer_input > 0 || (is_last && (config.drafts() || output_is_embedding))) {
    CAIRN_TRY(weights.embedding, loader.token_table("token_embd", config.vocabulary, config.embedding));
  }
  if (range.is_first() && config.learned_positions) {
    CAIRN_TRY(weights.positions, loader.lookup_table("position_embd", config.context_trained, config.embedding));
  }
  if (config.per_layer_input > 0) {
    CAIRN_TRY(weights.per_layer_inputs,
              PerLayerInputWeights::load(loader, config.per_layer_inputs(range.begin, range.end)));
  }
  const int32_t drafting = config.dspark ? config.dspark->stages : config.mtp_layer ? 1 : 0;
  weights.layers.reserve(range.end - range.begin + drafting);
  for (int32_t layer = range.begin; layer < range.end; ++layer) {
    CAIRN_TRY(weights.layers.emplace_back(), load_layer(loader, config, layer, fmt::format("blk.{}.", layer)));
  }
  if (config.compressed) mark_image_biases(loader);
  if (is_last) {
    CAIRN_TRY_VOID(load_output(loader, config, output_is_embedding, weights));
    CAIRN_TRY_VOID(load_drafting(loader, config, drafts, weights));
  }
  CAIRN_TRY_VOID(loader.allocate_adapters());
  weights.adapter_rows = loader.adapter_rows();
  return weights;
}

}  // namespace cairn::model
