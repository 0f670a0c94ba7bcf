#include "model/decoder/recurrent_layer.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn {

void RecurrentLayers::Activations::add_to(ActivationArena& arena, const DecoderConfig& config,
                                          const RecurrentSizes& sizes) {
  const int64_t rows = sizes.rows, drafts = int64_t{sizes.layers} * sizes.drafts;
  const RecurrentConfig& state = *config.recurrent;
  const bool beside =
      std::ranges::find(config.layers, Mixer::kAttentionAndMamba2, &LayerConfig::mixer) != config.layers.end();
  const bool short_convolution = state.heads == 0;
  arena.add(mixed, rows * state.channels);
  arena.add(convolved, rows * state.channels);
  arena.add(gate, rows * (short_convolution ? state.channels : state.inner()));
  arena.add(input_gate, short_convolution ? rows * state.channels : 0);
  arena.add(gate_low, rows * state.gate_rank);
  arena.add(alpha_low, rows * state.gate_rank);
  arena.add(alpha, rows * state.decays());
  arena.add(beta, rows * state.heads);
  arena.add(read, rows * state.inner());
  arena.add(added, beside ? rows * config.embedding : 0);
  arena.add(draft_mixed, drafts * state.channels);
  arena.add(draft_alpha, drafts * state.decays());
  arena.add(draft_beta, drafts * state.heads);
}

int64_t RecurrentLayers::bytes(const DecoderConfig& config, const RecurrentSizes& sizes) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, sizes);
  return arena.bytes();
}

void RecurrentLayers::add_work(const DecoderConfig& config, int32_t rows, WorkspaceSizes& sizes) {
  sizes.inputs.push_back({rows, config.recurrent->inner()});
}

Result<RecurrentLayers> RecurrentLayers::create(Backend& backend, const DecoderConfig& config,
                                                const RecurrentSizes& sizes) {
  if (backend.recurrent() == nullptr) {
    return fail(Code::kUnsupported, "{} has no recurrent layers, which this model needs", backend.description());
  }
  RecurrentLayers layers(backend, config, sizes);
  layers.activations_.add_to(layers.arena_, config, sizes);
  CAIRN_TRY_VOID(layers.arena_.allocate(backend));
  return layers;
}

void RecurrentLayers::run(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                          float* out) const {
  switch (mixer) {
    case Mixer::kGatedDeltaNet:
      return gated_delta_net(weights, step, x, out);
    case Mixer::kKimiDeltaAttention:
      return kimi_delta_attention(weights, step, x, out);
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

void RecurrentLayers::keep_drafts(Mixer mixer, const RecurrentWeights& weights, int32_t layer, int32_t first,
                                  const StateSlice& slice) const {
  CAIRN_CHECK(first >= 0 && slice.rows <= sizes_.drafts - first);
  const Inputs kept = draft_inputs(layer, first);
  const std::span<const StateSlice> slices(&slice, 1);
  if (mixer == Mixer::kShortConvolution) {
    backend_->recurrent()->convolve(short_convolution_params(weights), slices,
                                    {.x = kept.mixed, .out = activations_.convolved});
    return;
  }
  convolve(weights, slices, kept);
  if (mixer == Mixer::kGatedDeltaNet || mixer == Mixer::kKimiDeltaAttention) {
    delta_rule(weights, slices, kept);
  } else {
    scan(weights, slices, kept);
  }
}

RecurrentLayers::Inputs RecurrentLayers::draft_inputs(int32_t layer, int32_t first) const {
  const RecurrentConfig& state = *description_->recurrent;
  const int64_t row = int64_t{layer} * sizes_.drafts + first;
  return {.mixed = activations_.draft_mixed + row * state.channels,
          .alpha = activations_.draft_alpha + row * state.decays(),
          .beta = activations_.draft_beta + row * state.heads};
}

void RecurrentLayers::remember_drafts(const RecurrentStep& step) const {
  if (step.drafts.empty()) return;
  CAIRN_CHECK(step.layer < sizes_.layers && std::ssize(step.drafts) <= sizes_.drafts);
  const RecurrentConfig& state = *description_->recurrent;
  const Inputs kept = draft_inputs(step.layer, 0);
  backend_->gather_rows(activations_.mixed, step.drafts, state.channels, kept.mixed);
  if (state.heads == 0) return;
  backend_->gather_rows(activations_.alpha, step.drafts, state.decays(), kept.alpha);
  backend_->gather_rows(activations_.beta, step.drafts, state.heads, kept.beta);
}

void RecurrentLayers::convolve(const RecurrentWeights& weights, std::span<const StateSlice> slices,
                               const Inputs& inputs) const {
  const RecurrentConfig& state = *description_->recurrent;
  const ConvolutionParams params{.taps = state.taps,
                                 .channels = state.channels,
                                 .weights = weights.convolution.floats(),
                                 .bias = weights.convolution_bias.floats(),
                                 .silu = true};
  backend_->recurrent()->convolve(params, slices, {.x = inputs.mixed, .out = activations_.convolved});
}

}  // namespace cairn
