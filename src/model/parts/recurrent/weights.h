/// Weights of layers that keep a state, by the tensor names that GGUF files give them.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "kernels/device_memory.h"
#include "model/parts/recurrent/config.h"
#include "model/weights/linear.h"

namespace cairn::model {

class WeightLoader;

/// What Kimi Delta Attention has instead of one matrix for what is mixed, and what its gate and alpha are made of.
struct KimiDeltaWeights {
  Linear query;
  Linear key;
  Linear value;
  Linear gate_low;
  Linear alpha_low;
};

/// What a layer's mixer does not have is empty.
struct RecurrentWeights {
  Linear mixed;                      ///< what the convolution goes over
  Linear gate;                       ///< of the gated norm; of a short convolution, of its output
  Linear input_gate;                 ///< of a short convolution
  Linear alpha;                      ///< of the state's factors: DeltaNet's alpha, or Mamba's time steps
  Linear beta;                       ///< DeltaNet
  kernels::Buffer convolution;       ///< [taps, channels]
  kernels::Buffer convolution_bias;  ///< may be empty
  kernels::Buffer rate;              ///< [heads]
  kernels::Buffer time_bias;         ///< [decays]
  kernels::Buffer skip;              ///< [heads], Mamba
  kernels::Buffer norm;              ///< DeltaNet: [head_dim]; Mamba: [groups, inner / groups]
  Linear output;
  std::unique_ptr<KimiDeltaWeights> kimi;  ///< null unless Kimi Delta Attention
};

/// The tensors of the layer whose names begin with `prefix`. Errors: the loader's.
Result<RecurrentWeights> load_recurrent_weights(WeightLoader& loader, const std::string& prefix, Mixer mixer,
                                                const RecurrentConfig& config);

// -- Of each kind, in its file.
Result<void> load_gated_delta_net(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                  RecurrentWeights& weights);
Result<void> load_kimi_delta_attention(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                       RecurrentWeights& weights);
Result<void> load_mamba2(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                         RecurrentWeights& weights);
Result<void> load_short_convolution(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                    RecurrentWeights& weights);

}  // namespace cairn::model
