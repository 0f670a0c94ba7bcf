/// All weights of an encoder, by the tensor names that GGUF files give them.
#pragma once

#include <vector>

#include "base/error.h"
#include "model/encoder/encoder_config.h"
#include "model/weights/weight_loader.h"

namespace cairn {

struct LayerNorm {
  Buffer weight;
  Buffer bias;  ///< empty if there is none
};

/// What the config leaves out is empty.
struct EncoderLayerWeights {
  Linear query;
  Linear key;
  Linear value;
  Linear attention_output;
  LayerNorm attention_norm;
  Linear gate;
  Linear up;
  Linear down;
  LayerNorm output_norm;
};

struct EncoderWeights {
  Weight tokens;
  Weight positions;
  Weight types;
  LayerNorm embedding_norm;
  Buffer slopes;
  std::vector<EncoderLayerWeights> layers;
  Linear label_dense;
  Linear labels;
};

Result<EncoderWeights> load_encoder_weights(WeightLoader& binder, Backend& backend, const EncoderConfig& config);

}  // namespace cairn
