#include "model/parts/recurrent/layers.h"

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

// The rows of in_proj are those of the gate of the convolution's input, of the gate of its output, and of the input.
Result<void> load_short_convolution(WeightLoader& loader, const std::string& prefix, const RecurrentConfig& config,
                                    RecurrentWeights& weights) {
  const int64_t width = config.embedding;
  const std::string name = prefix + "shortconv.in_proj";
  CAIRN_TRY(weights.input_gate, loader.linear_rows(name, 3 * width, width, {0, width}));
  CAIRN_TRY(weights.gate, loader.linear_rows(name, 3 * width, width, {width, width}));
  CAIRN_TRY(weights.mixed, loader.linear_rows(name, 3 * width, width, {2 * width, width}));
  CAIRN_TRY(weights.convolution, loader.turned_table(prefix + "shortconv.conv.weight", width, config.taps));
  CAIRN_TRY(weights.output, loader.linear(prefix + "shortconv.out_proj", width, width));
  return {};
}

void RecurrentLayers::short_convolution(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                        float* out) const {
  const kernels::MatmulTarget in[] = {weights.input_gate.to(activations_.input_gate),
                                      weights.gate.to(activations_.gate), weights.mixed.to(activations_.mixed)};
  backend_->matmul(in, x, step.rows);
  backend_->recurrent()->convolve(short_convolution_params(weights), step.slices,
                                  {.x = activations_.mixed,
                                   .input_factors = activations_.input_gate,
                                   .output_factors = activations_.gate,
                                   .out = activations_.convolved});
  remember_drafts(step);
  const kernels::MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.convolved, step.rows);
}

kernels::ConvolutionParams RecurrentLayers::short_convolution_params(const RecurrentWeights& weights) const {
  return {.taps = config_.taps, .channels = config_.channels, .weights = weights.convolution.floats()};
}

}  // namespace cairn::model
