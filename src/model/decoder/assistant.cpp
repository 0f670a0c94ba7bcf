#include "model/decoder/assistant.h"

#include <algorithm>
#include <utility>

#include "model/arch/table.h"

namespace cairn::model {
namespace {

/// A step of an assistant has one row for each sequence, and each has logits.
ModelOptions options_of_assistant(const ModelOptions& options) {
  ModelOptions own = options;
  own.batch_tokens_max = options.logits_max;
  own.control_vectors = {};
  own.adapters = {};
  return own;
}

LayerRange whole(const DecoderConfig& config) {
  return {.begin = 0, .end = static_cast<int32_t>(config.layers.size())};
}

/// The last layer of the model with keys and values of its own that has a window, or has none.
const LayerConfig* last_with_kv(const DecoderConfig& model, bool window) {
  const auto found = std::find_if(model.layers.rbegin(), model.layers.rend(), [&](const LayerConfig& layer) {
    return layer.kv_layer == kOwnKv && layer.attends() && (layer.window > 0) == window;
  });
  return found == model.layers.rend() ? nullptr : &*found;
}

Result<void> bind_layer(const DecoderConfig& config, const DecoderConfig& model, size_t number, LayerConfig& layer) {
  const LayerConfig* of_model = last_with_kv(model, layer.window > 0);
  const bool fits = of_model != nullptr && of_model->key_dim == layer.key_dim &&
                    of_model->value_dim == layer.value_dim && config.heads % of_model->kv_heads == 0;
  if (!fits) {
    return fail_at(
        "draft", Code::kInvalidArgument,
        "the assistant does not fit this model: its layer {} has {} heads of {} elements {}, and no layer of "
        "the model has keys and values for such",
        number, config.heads, layer.key_dim, layer.window > 0 ? "with a window" : "without a window");
  }
  layer.kv_layer = static_cast<int32_t>(of_model - model.layers.data());
  layer.kv_heads = of_model->kv_heads;
  // It sees what the position behind would see.
  if (layer.window > 1) --layer.window;
  return {};
}

}  // namespace

bool is_assistant_file(const gguf::Reader& file) {
  const auto architecture = architecture_of(file);
  return architecture.has_value() && (*architecture)->kind == ArchitectureKind::kAssistant;
}

Result<DecoderConfig> read_assistant_config(const gguf::Reader& file, const DecoderConfig& model) {
  CAIRN_TRY(const Architecture* architecture, architecture_of(file));
  CAIRN_TRY(DecoderConfig config, read_decoder_config(file, architecture->decoder_reader(), 0));
  if (config.vocabulary != model.vocabulary) {
    return fail_at("draft", Code::kInvalidArgument,
                   "the assistant does not fit this model: it has {} tokens, and the model {}", config.vocabulary,
                   model.vocabulary);
  }
  for (size_t i = 0; i < config.layers.size(); ++i) CAIRN_TRY_VOID(bind_layer(config, model, i, config.layers[i]));
  config.context_tokens = model.context_tokens;
  return config;
}

Result<AssistantWeights> load_assistant_weights(WeightLoader& loader, const DecoderConfig& config,
                                                const DecoderConfig& model) {
  AssistantWeights weights;
  CAIRN_TRY(weights.decoder, load_decoder_weights(loader, config, whole(config)));
  CAIRN_TRY(weights.in, loader.linear("nextn.pre_projection", config.embedding, 2 * model.embedding));
  CAIRN_TRY(weights.out, loader.linear("nextn.post_projection", model.embedding, config.embedding));
  return weights;
}

int64_t assistant_bytes(const DecoderConfig& config, const DecoderConfig& model, const kernels::Backend& backend,
                        const ModelOptions& options) {
  const ModelOptions own = options_of_assistant(options);
  const int64_t shared = std::min(Decoder::workspace_bytes(config, backend, own, whole(config)),
                                  Decoder::workspace_bytes(model, backend, options, whole(model)));
  return Decoder::bytes(config, backend, own, whole(config)) - shared;
}

Result<std::unique_ptr<Decoder>> make_assistant(DecoderConfig config, DecoderWeights weights, kernels::Backend& backend,
                                                const ModelOptions& options, const KvPlan& kv) {
  KvPlan own;
  own.layout = kv.layout;
  for (const LayerConfig& layer : config.layers) own.places.push_back(kv.places[layer.kv_layer]);
  own.states.resize(config.layers.size());
  const LayerRange range = whole(config);
  return Decoder::create(std::move(config), std::move(weights), backend, options_of_assistant(options), range,
                         std::move(own));
}

}  // namespace cairn::model
