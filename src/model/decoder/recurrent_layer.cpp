#include "model/decoder/recurrent_layer.h"

#include <algorithm>

#include "base/check.h"

namespace cairn {

void RecurrentLayers::Activations::add_to(ActivationArena& arena, const DecoderConfig& config, int64_t rows) {
  const RecurrentConfig& state = *config.recurrent;
  const bool beside =
      std::ranges::find(config.layers, Mixer::kAttentionAndMamba2, &LayerConfig::mixer) != config.layers.end();
  const bool short_convolution = state.heads == 0;
  arena.add(mixed, rows * state.channels);
  arena.add(convolved, rows * state.channels);
  arena.add(gate, rows * (short_convolution ? state.channels : state.inner()));
  arena.add(input_gate, short_convolution ? rows * state.channels : 0);
  arena.add(alpha, rows * state.heads);
  arena.add(beta, rows * state.heads);
  arena.add(read, rows * state.inner());
  arena.add(added, beside ? rows * config.embedding : 0);
}

int64_t RecurrentLayers::bytes(const DecoderConfig& config, int32_t rows) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, rows);
  return arena.bytes();
}

void RecurrentLayers::add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes) {
  sizes.inputs.push_back({rows, config.recurrent->inner()});
}

Result<RecurrentLayers> RecurrentLayers::create(Backend& backend, const DecoderConfig& config, int32_t rows) {
  if (backend.recurrent() == nullptr) {
    return fail(Code::kUnsupported, "{} has no recurrent layers, which this model needs", backend.description());
  }
  RecurrentLayers layers(backend, config);
  layers.activations_.add_to(layers.arena_, config, rows);
  CAIRN_TRY_VOID(layers.arena_.allocate(backend));
  return layers;
}

void RecurrentLayers::run(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                          float* out) const {
  switch (mixer) {
    case Mixer::kGatedDeltaNet:
      return gated_delta_net(weights, step, x, out);
    case Mixer::kMamba2:
    case Mixer::kAttentionAndMamba2:
      return mamba2(weights, step, x, out);
    case Mixer::kShortConvolution:
      return short_convolution(weights, step, x, out);
    case Mixer::kAttention:
    case Mixer::kNone:
      break;
  }
  CAIRN_CHECK(false && "the layer keeps no state");
}

void RecurrentLayers::run_and_add(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step,
                                  const float* x, float* out) const {
  run(mixer, weights, step, x, activations_.added);
  backend_->add(out, activations_.added, step.rows * description_->embedding, 1);
}

void RecurrentLayers::convolve(const RecurrentWeights& weights, const RecurrentStep& step) const {
  const RecurrentConfig& state = *description_->recurrent;
  const ConvolutionParams params{.taps = state.taps,
                                 .channels = state.channels,
                                 .weights = weights.convolution.floats(),
                                 .bias = weights.convolution_bias.floats(),
                                 .silu = true};
  backend_->recurrent()->convolve(params, step.slices, {.x = activations_.mixed, .out = activations_.convolved});
}

}  // namespace cairn
