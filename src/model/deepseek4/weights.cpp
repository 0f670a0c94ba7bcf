#include "model/deepseek4/weights.h"

#include <string>
#include <utility>

#include "model/deepseek4/dspark_weights.h"
#include "model/deepseek4/mtp_weights.h"

namespace cairn::deepseek4 {
namespace {

/// Loads the tensors of one layer.
class LayerLoader {
 public:
  LayerLoader(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& model, size_t layer,
              const std::string& prefix)
      : loader_(loader),
        file_(file),
        model_(model),
        layer_(model.layers[layer]),
        experts_(model.experts_of(layer)),
        prefix_(prefix) {}

  Result<LayerWeights> load() {
    LayerWeights weights;
    CAIRN_TRY(weights.attention_streams, StreamWeights::load(loader_, prefix_ + "hc_attn", model_.hyper_connections()));
    CAIRN_TRY(weights.feed_forward_streams,
              StreamWeights::load(loader_, prefix_ + "hc_ffn", model_.hyper_connections()));
    CAIRN_TRY(weights.attention_norm, norm("attn_norm", model_.embedding));
    CAIRN_TRY(weights.attention, CompressedAttentionWeights::load(loader_, prefix_, model_, layer_));
    if (layer_.engram >= 0) {
      CAIRN_TRY(EngramWeights engram, load_engram(loader_, model_.engram, layer_.engram, prefix_));
      weights.engram = std::make_unique<EngramWeights>(std::move(engram));
    }
    CAIRN_TRY_VOID(load_feed_forward(weights));
    return weights;
  }

 private:
  Result<Norm> norm(std::string_view name, int64_t width) {
    return Norm::load(loader_, fmt::format("{}{}", prefix_, name), width, model_.norm);
  }

  Result<void> load_feed_forward(LayerWeights& weights) {
    CAIRN_TRY(weights.feed_forward_norm, norm("ffn_norm", model_.embedding));
    MoeConfig config = experts_;
    if (layer_.hashed) config.hashed_tokens = model_.vocabulary;
    CAIRN_TRY(weights.experts, Experts::load(loader_, prefix_, model_.embedding, config, {.clamp = layer_.clamp},
                                             {.clamp = layer_.shared_clamp}));
    return {};
  }

  WeightLoader& loader_;
  const gguf::Reader& file_;
  const ModelConfig& model_;
  const LayerConfig& layer_;
  const MoeConfig& experts_;
  const std::string prefix_;
};

// No text has the router's biases for images.
void mark_image_biases(WeightLoader& loader, const gguf::Reader& file) {
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.name.ends_with(".exp_probs_b_vl.bias")) loader.mark_used(tensor.name);
  }
}

// A drafting head in the model's file needs no warning where nobody asks for drafts.
void mark_drafting_head(WeightLoader& loader, const gguf::Reader& file) {
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (tensor.name.starts_with("mtp.")) loader.mark_used(tensor.name);
  }
}

}  // namespace

Result<LayerWeights> load_layer(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config, size_t layer,
                                const std::string& prefix) {
  return LayerLoader(loader, file, config, layer, prefix).load();
}

namespace {

Result<ModelWeights> load_all(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                              const gguf::Reader* mtp_file) {
  ModelWeights weights;
  CAIRN_TRY(weights.embedding, loader.token_table("token_embd", config.vocabulary, config.embedding));
  weights.layers.reserve(config.layers.size());
  for (size_t layer = 0; layer < config.main_layers(); ++layer) {
    CAIRN_TRY(LayerWeights loaded, load_layer(loader, file, config, layer, fmt::format("blk.{}.", layer)));
    weights.layers.push_back(std::move(loaded));
  }
  if (!config.is_v41) {
    CAIRN_TRY(weights.output_streams, StreamWeights::load_output(loader, "output_hc", config.hyper_connections()));
  }
  CAIRN_TRY(weights.output_norm, Norm::load(loader, "output_norm", config.embedding, config.norm));
  CAIRN_TRY(weights.output, loader.linear("output", config.vocabulary, config.embedding));
  mark_image_biases(loader, file);
  if (!config.dspark || mtp_file != nullptr) mark_drafting_head(loader, file);
  mark_mtp_used(loader, file, config);
  if (!config.drafts()) return weights;
  const auto load_drafting = config.dspark ? load_dspark_weights : load_mtp_weights;
  if (mtp_file == nullptr) {
    CAIRN_TRY_VOID(load_drafting(loader, file, config, weights));
    return weights;
  }
  // No adapter changes a file of its own.
  WeightLoader others = loader.for_file(*mtp_file);
  mark_image_biases(others, *mtp_file);
  CAIRN_TRY_VOID(load_drafting(others, *mtp_file, config, weights));
  if (loader.wants(others.bytes())) others.warn_of_unused();
  return weights;
}

}  // namespace

Result<ModelWeights> load_weights(WeightLoader& loader, const gguf::Reader& file, const ModelConfig& config,
                                  const gguf::Reader* mtp_file) {
  CAIRN_TRY(ModelWeights weights, load_all(loader, file, config, mtp_file));
  CAIRN_TRY_VOID(loader.allocate_adapters());
  weights.adapter_rows = loader.adapter_rows();
  return weights;
}

}  // namespace cairn::deepseek4
