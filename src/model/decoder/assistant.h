/// Assistants: small decoders that draft for another one, whose keys and values they read (Gemma 4). They are files of
/// their own, beside the model's.
#pragma once

#include <memory>

#include "base/error.h"
#include "gguf/reader.h"
#include "model/config.h"
#include "model/decoder/decoder.h"
#include "model/model_options.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

bool is_assistant_file(const gguf::Reader& file);

/// An assistant's config, as one for this model: LayerConfig::kv_layer are the model's. Errors: those of load_model;
/// kInvalidArgument if it does not fit the model, which says what does not.
Result<DecoderConfig> read_assistant_config(const gguf::Reader& file, const DecoderConfig& model);

struct AssistantWeights {
  DecoderWeights decoder;
  Linear in;   ///< Decoder::use_assistant()
  Linear out;  ///< the same
};
/// `loader` is of the assistant's file.
Result<AssistantWeights> load_assistant_weights(WeightLoader& loader, const DecoderConfig& config,
                                                const DecoderConfig& model);

/// Bytes that it takes beside its weights.
int64_t assistant_bytes(const DecoderConfig& config, const DecoderConfig& model, const kernels::Backend& backend,
                        const ModelOptions& options);
/// `kv` is the model's.
Result<std::unique_ptr<Decoder>> make_assistant(DecoderConfig config, DecoderWeights weights, kernels::Backend& backend,
                                                const ModelOptions& options, const KvPlan& kv);

}  // namespace cairn::model
