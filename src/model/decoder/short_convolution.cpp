#include "model/decoder/recurrent_layer.h"

#include "kernels/backend.h"

namespace cairn {

void RecurrentLayers::short_convolution(const RecurrentWeights& weights, const RecurrentStep& step, const float* x,
                                        float* out) const {
  const MatmulTarget in[] = {weights.input_gate.to(activations_.input_gate), weights.gate.to(activations_.gate),
                             weights.mixed.to(activations_.mixed)};
  backend_->matmul(in, x, step.rows);
  backend_->recurrent()->convolve(short_convolution_params(weights), step.slices,
                                  {.x = activations_.mixed,
                                   .input_factors = activations_.input_gate,
                                   .output_factors = activations_.gate,
                                   .out = activations_.convolved});
  remember_drafts(step);
  const MatmulTarget output[] = {weights.output.to(out)};
  backend_->matmul(output, activations_.convolved, step.rows);
}

ConvolutionParams RecurrentLayers::short_convolution_params(const RecurrentWeights& weights) const {
  const RecurrentConfig& state = *description_->recurrent;
  return {.taps = state.taps, .channels = state.channels, .weights = weights.convolution.floats()};
}

}  // namespace cairn
