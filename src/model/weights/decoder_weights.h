/// All weights of a decoder, by the tensor names that GGUF files give them.
#pragma once

#include <vector>

#include "base/error.h"
#include "model/config.h"
#include "model/weights/latent_weights.h"
#include "model/weights/weight_loader.h"

namespace cairn {

/// down(act(gate x) * up x), or without a gate down(act(up x)).
struct FeedForwardWeights {
  Linear gate;  ///< empty if there is none
  Linear up;
  Linear down;
};

/// Norms that the config leaves out are empty, and so is one of `dense` and `routed` with what belongs to it.
struct LayerWeights {
  Norm attention_norm;
  Linear query;
  Linear key;
  Linear value;
  Buffer query_norm;
  Buffer key_norm;
  LatentWeights latent;  ///< instead of query, key, value and their norms
  Buffer sinks;
  Linear attention_output;
  Norm attention_post_norm;

  Norm feed_forward_norm;
  FeedForwardWeights dense;
  Linear router;
  Buffer router_bias;  ///< for choosing only; may be empty
  FeedForwardWeights routed;
  FeedForwardWeights shared;
  Linear shared_gate;
  Norm feed_forward_post_norm;
};

struct DecoderWeights {
  Weight embedding;                  ///< empty where the range has no first layer, and no output that refers to it
  Weight positions;                  ///< [context_trained, embedding], where they are learned; with the first layer
  std::vector<LayerWeights> layers;  ///< of the range
  Norm output_norm;                  ///< empty where the range has no last layer, as what follows
  Linear output;                     ///< refers to the embedding where they are one
  Linear labels;                     ///< of the head that ranks; empty if there is none
};

/// Of those layers: the embedding comes with the first one, the output and the labels with the last.
Result<DecoderWeights> load_decoder_weights(WeightLoader& binder, const DecoderConfig& config, LayerRange range);

}  // namespace cairn
