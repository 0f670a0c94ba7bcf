#include "model/parts/recurrent/layers.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

Result<RecurrentWeights> load_recurrent_weights(WeightLoader& loader, const std::string& prefix, Mixer mixer,
                                                const RecurrentConfig& config) {
  RecurrentWeights weights;
  if (mixer == Mixer::kShortConvolution) {
    CAIRN_TRY_VOID(load_short_convolution(loader, prefix, config, weights));
    return weights;
  }
  if (mixer == Mixer::kKimiDeltaAttention) {
    CAIRN_TRY_VOID(load_kimi_delta_attention(loader, prefix, config, weights));
    return weights;
  }
  if (mixer == Mixer::kGatedDeltaNet) {
    CAIRN_TRY_VOID(load_gated_delta_net(loader, prefix, config, weights));
  } else {
    CAIRN_TRY_VOID(load_mamba2(loader, prefix, config, weights));
  }
  CAIRN_TRY(weights.convolution, loader.turned_table(prefix + "ssm_conv1d.weight", config.channels, config.taps));
  if (const std::string bias = prefix + "ssm_conv1d.bias"; loader.has(bias)) {
    CAIRN_TRY(weights.convolution_bias, loader.vector(bias, config.channels));
  }
  CAIRN_TRY(weights.time_bias, loader.vector(prefix + "ssm_dt.bias", config.heads));
  CAIRN_TRY(weights.output, loader.linear(prefix + "ssm_out", config.embedding, config.inner()));
  return weights;
}

void RecurrentLayers::Activations::add_to(ActivationArena& arena, const RecurrentConfig& config,
                                          const RecurrentSizes& sizes) {
  const int64_t rows = sizes.rows, drafts = int64_t{sizes.layers} * sizes.drafts;
  const bool short_convolution = config.heads == 0;
  arena.add(mixed, rows * config.channels);
  arena.add(convolved, rows * config.channels);
  arena.add(gate, rows * (short_convolution ? config.channels : config.inner()));
  arena.add(input_gate, short_convolution ? rows * config.channels : 0);
  arena.add(gate_low, rows * config.gate_rank);
  arena.add(alpha_low, rows * config.gate_rank);
  arena.add(alpha, rows * config.decays());
  arena.add(beta, rows * config.heads);
  arena.add(read, rows * config.inner());
  arena.add(added, config.beside_attention ? rows * config.embedding : 0);
  arena.add(draft_mixed, drafts * config.channels);
  arena.add(draft_alpha, drafts * config.decays());
  arena.add(draft_beta, drafts * config.heads);
}

int64_t RecurrentLayers::bytes(const RecurrentConfig& config, const RecurrentSizes& sizes) {
  ActivationArena arena;
  Activations activations;
  activations.add_to(arena, config, sizes);
  return arena.bytes();
}

void RecurrentLayers::add_work(const RecurrentConfig& config, int32_t rows, kernels::WorkspaceSizes& sizes) {
  sizes.inputs.push_back({rows, config.inner()});
}

Result<RecurrentLayers> RecurrentLayers::create(kernels::Backend& backend, const RecurrentConfig& config,
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
    case Mixer::kCompressedAttention:
    case Mixer::kNone:
      break;
  }
  CAIRN_CHECK(false && "the layer keeps no state");
}

void RecurrentLayers::run_and_add(Mixer mixer, const RecurrentWeights& weights, const RecurrentStep& step,
                                  const float* x, float* out) const {
  run(mixer, weights, step, x, activations_.added);
  backend_->add(out, activations_.added, step.rows * config_.embedding, 1);
}

void RecurrentLayers::keep_drafts(Mixer mixer, const RecurrentWeights& weights, int32_t layer, int32_t first,
                                  const kernels::StateSlice& slice) const {
  CAIRN_CHECK(first >= 0 && slice.rows <= sizes_.drafts - first);
  const Inputs kept = draft_inputs(layer, first);
  const std::span<const kernels::StateSlice> slices(&slice, 1);
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
  const int64_t row = int64_t{layer} * sizes_.drafts + first;
  return {.mixed = activations_.draft_mixed + row * config_.channels,
          .alpha = activations_.draft_alpha + row * config_.decays(),
          .beta = activations_.draft_beta + row * config_.heads};
}

void RecurrentLayers::remember_drafts(const RecurrentStep& step) const {
  if (step.drafts.empty()) return;
  CAIRN_CHECK(step.layer < sizes_.layers && std::ssize(step.drafts) <= sizes_.drafts);
  const Inputs kept = draft_inputs(step.layer, 0);
  backend_->gather_rows(activations_.mixed, step.drafts, config_.channels, kept.mixed);
  if (config_.heads == 0) return;
  backend_->gather_rows(activations_.alpha, step.drafts, config_.decays(), kept.alpha);
  backend_->gather_rows(activations_.beta, step.drafts, config_.heads, kept.beta);
}

void RecurrentLayers::convolve(const RecurrentWeights& weights, std::span<const kernels::StateSlice> slices,
                               const Inputs& inputs) const {
  const kernels::ConvolutionParams params{.taps = config_.taps,
                                          .channels = config_.channels,
                                          .weights = weights.convolution.floats(),
                                          .bias = weights.convolution_bias.floats(),
                                          .silu = true};
  backend_->recurrent()->convolve(params, slices, {.x = inputs.mixed, .out = activations_.convolved});
}

}  // namespace cairn::model
