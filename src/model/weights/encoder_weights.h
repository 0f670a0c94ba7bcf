/// All weights of an encoder, by the tensor names that GGUF files give them.
#pragma once

#include <vector>

#include "base/error.h"
#include "model/encoder/encoder_config.h"
#include "model/weights/weight_loader.h"

namespace cairn {

/// The weights of a norm; no weight: there is no such norm.
struct NormWeights {
  Buffer weight;
  Buffer bias;  ///< empty if there is none
};

/// What the config leaves out is empty.
struct EncoderLayerWeights {
  NormWeights attention_pre_norm;
  Linear query;
  Linear key;
  Linear value;
  Buffer query_norm;
  Buffer key_norm;
  Linear attention_output;
  NormWeights attention_post_norm;  ///< of the sum with kPostLn, else of what attention gives
  NormWeights feed_forward_pre_norm;
  Linear router;  ///< up and down then are of experts
  Linear gate;
  Linear up;
  Linear down;
  NormWeights feed_forward_post_norm;
};

struct EncoderWeights {
  Weight tokens;
  Weight positions;
  Weight types;
  NormWeights embedding_norm;
  Buffer slopes;
  std::vector<EncoderLayerWeights> layers;
  NormWeights output_norm;
  Linear dense_2;
  Linear dense_3;
  Linear label_dense;
  NormWeights label_norm;
  Linear labels;
};

Result<EncoderWeights> load_encoder_weights(WeightLoader& binder, Backend& backend, const EncoderConfig& config);

}  // namespace cairn
