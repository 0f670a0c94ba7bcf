#include "model/decoder/decoder_weights.h"

#include <cmath>
#include <string>

namespace cairn {

namespace {

/// Loads the tensors of one layer, "blk.N.".
class LayerLoader {
 public:
  LayerLoader(WeightLoader& loader, const DecoderConfig& config, int32_t layer)
      : loader_(loader), config_(config), layer_(layer), prefix_(fmt::format("blk.{}.", layer)) {}

  Result<LayerWeights> load() {
    LayerWeights weights;
    CAIRN_TRY_VOID(load_norms(weights));
    if (layer().attends()) CAIRN_TRY_VOID(load_attention(weights));
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
    if (layer().routed) CAIRN_TRY_VOID(load_experts(*config_.experts, weights));
    if (!layer().routed || beside) {
      FeedForwardConfig dense = config_.feed_forward;
      dense.length = layer().feed_forward_length;
      CAIRN_TRY(weights.dense, FeedForward::load(loader_, prefix_ + "ffn_", "", config_.embedding, dense));
    }
    return weights;
  }

 private:
  Result<void> load_attention(LayerWeights& weights) {
    if (config_.mla) {
      const bool chooses = config_.mla->indexer && layer().indexer;
      CAIRN_TRY(weights.mla, Mla::load(loader_, prefix_, config_.embedding, *config_.mla, chooses));
    } else {
      CAIRN_TRY(weights.attention, Attention::load(loader_, prefix_, config_.embedding, config_.attention(layer())));
    }
    return {};
  }

  Result<void> load_norms(LayerWeights& weights) {
    if (config_.pre_norms && layer().mixer != Mixer::kNone) {
      CAIRN_TRY(weights.attention_norm, norm(config_.attention_norm));
    }
    if (config_.pre_norms && layer().feed_forward && !config_.feed_forward_norm.empty()) {
      CAIRN_TRY(weights.feed_forward_norm, norm(config_.feed_forward_norm));
    }
    if (config_.post_norms) {
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
      CAIRN_TRY(Buffer scale, loader_.vector(prefix_ + "ffn_gate_inp.scale", width, factor));
      weights.router_norm = Norm(std::move(scale), width, config_.norm.epsilon);
    }
    if (experts.beside_dense) {
      CAIRN_TRY(weights.dense_post_norm, norm("post_ffw_norm_1"));
      CAIRN_TRY(weights.routed_norm, norm("pre_ffw_norm_2"));
      CAIRN_TRY(weights.routed_post_norm, norm("post_ffw_norm_2"));
    }
    const FeedForwardConfig& form = config_.feed_forward;
    CAIRN_TRY(weights.experts, Experts::load(loader_, prefix_, width, experts, form, form));
    return {};
  }

  const LayerConfig& layer() const { return config_.layer(layer_); }

  WeightLoader& loader_;
  const DecoderConfig& config_;
  const int32_t layer_;
  const std::string prefix_;
};

Result<void> load_mtp_module(WeightLoader& loader, const DecoderConfig& config, DecoderWeights& weights) {
  const auto layer = static_cast<int32_t>(config.layers.size());
  const std::string prefix = fmt::format("blk.{}.nextn.", layer);
  const int64_t width = config.embedding;
  MtpWeights& mtp = weights.mtp;
  const NormConfig of_pair{.epsilon = config.norm.epsilon};
  CAIRN_TRY(mtp.token_norm, Norm::load(loader, prefix + "enorm", width, of_pair));
  CAIRN_TRY(mtp.row_norm, Norm::load(loader, prefix + "hnorm", width, of_pair));
  CAIRN_TRY(mtp.pair, loader.linear(prefix + "eh_proj", width, 2 * width));
  if (const std::string norm = prefix + "shared_head_norm"; loader.has(norm + ".weight")) {
    CAIRN_TRY(mtp.output_norm, Norm::load(loader, norm, width, config.norm));
  }
  if (const std::string table = prefix + "embed_tokens"; loader.has(table + ".weight")) {
    CAIRN_TRY(mtp.embedding, loader.lookup_table(table, config.vocabulary, width));
  }
  if (const std::string output = prefix + "shared_head_head"; loader.has(output + ".weight")) {
    CAIRN_TRY(mtp.output, loader.linear(output, config.vocabulary, width));
  }
  CAIRN_TRY(LayerWeights loaded, LayerLoader(loader, config, layer).load());
  weights.layers.push_back(std::move(loaded));
  return {};
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(WeightLoader& loader, const DecoderConfig& config, LayerRange range) {
  DecoderWeights weights;
  const bool output_is_embedding = config.output_is_embedding || !loader.has("output.weight");
  const bool drafts = range.is_last(config) && config.mtp_layer.has_value();
  if (range.is_first() || config.per_layer_input > 0 || drafts || (range.is_last(config) && output_is_embedding)) {
    CAIRN_TRY(weights.embedding, loader.token_table("token_embd", config.vocabulary, config.embedding));
  }
  if (range.is_first() && config.learned_positions) {
    CAIRN_TRY(weights.positions, loader.lookup_table("position_embd", config.context_trained, config.embedding));
  }
  if (config.per_layer_input > 0) {
    CAIRN_TRY(weights.per_layer_inputs,
              PerLayerInputWeights::load(loader, config.per_layer_inputs(range.begin, range.end)));
  }
  weights.layers.reserve(range.end - range.begin + (config.mtp_layer ? 1 : 0));
  for (int32_t layer = range.begin; layer < range.end; ++layer) {
    CAIRN_TRY(LayerWeights loaded, LayerLoader(loader, config, layer).load());
    weights.layers.push_back(std::move(loaded));
  }
  if (!range.is_last(config)) {
    CAIRN_TRY_VOID(loader.allocate_adapters());
    weights.adapter_rows = loader.adapter_rows();
    return weights;
  }
  CAIRN_TRY(weights.output_norm, Norm::load(loader, config.output_norm, config.embedding, config.norm));
  if (output_is_embedding) {
    weights.output.weight = weights.embedding.weight;
  } else {
    CAIRN_TRY(weights.output, loader.linear("output", config.vocabulary, config.embedding));
  }
  if (config.mtp_layer) {
    Result<void> loaded = load_mtp_module(loader, config, weights);
    if (!loaded.has_value()) {
      loaded.error().message +=
          "; the model loads without its MTP module: leave out --speculate, or draft with --draft "
          "SMALL.gguf";
      return std::unexpected(std::move(loaded.error()));
    }
  }
  if (config.labels > 0) {
    CAIRN_TRY(weights.labels, loader.lookup_table("cls.output", config.labels, config.embedding));
  }
  CAIRN_TRY_VOID(loader.allocate_adapters());
  weights.adapter_rows = loader.adapter_rows();
  return weights;
}

}  // namespace cairn
