/// Weights of layers that keep a state, by the tensor names that GGUF files give them.
#pragma once

#include <string>

#include "base/error.h"
#include "model/config.h"
#include "model/weights/weight_loader.h"

namespace cairn {

/// Those that a layer's mixer does not have are empty.
struct RecurrentWeights {
  Linear mixed;  ///< what the convolution goes over
  Linear query;  ///< its parts, where each has a matrix (Kimi Delta Attention)
  Linear key;
  Linear value;
  Linear gate;        ///< of the gated norm; of a short convolution, of its output
  Linear input_gate;  ///< of a short convolution
  Linear alpha;       ///< of the state's factors: DeltaNet's alpha, or Mamba's time steps
  Linear gate_low;    ///< to what gate reads, and the next to what alpha reads, if that is not the layer's input
  Linear alpha_low;
  Linear beta;              ///< DeltaNet
  Buffer convolution;       ///< [taps, channels]
  Buffer convolution_bias;  ///< may be empty
  Buffer rate;              ///< [heads]
  Buffer time_bias;         ///< [decays]
  Buffer skip;              ///< [heads], Mamba
  Buffer norm;              ///< DeltaNet: [head_dim]; Mamba: [groups, inner / groups]
  Linear output;
};

/// `prefix` is the layer's.
Result<RecurrentWeights> load_recurrent_weights(WeightLoader& binder, const std::string& prefix, Mixer mixer,
                                                const DecoderConfig& config);

}  // namespace cairn
