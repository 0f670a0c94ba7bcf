#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The feed-forwards of Decoder: dense ones and experts.
namespace cairn {

void Decoder::feed_forward(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_of(layer);
  const LayerConfig& config = config_.layer(layer);
  const float* x = nullptr;
  if (config_.parallel_residual) {
    hidden();  // with attention's block, whose array this one takes
    x = parallel_input_;
  } else {
    x = block_input(weights.feed_forward_norm);
  }
  float* block = activations_.block;
  if (config.routed && config_.experts->beside_dense) {
    dense_and_routed(weights, x, block);
  } else if (config.routed) {
    weights.experts->route(backend_, activations_.experts, x, rows_, {});
    weights.experts->run(backend_, activations_.feed_forward, activations_.experts, x, rows_, block);
  } else {
    weights.dense->run(backend_, activations_.feed_forward, x, rows_, block);
  }
  control_vectors_.after_feed_forward(backend_, layer, block, rows_);
  add_block(weights.feed_forward_post_norm);
}

void Decoder::dense_and_routed(const LayerWeights& weights, const float* x, float* out) {
  float* normed = activations_.normed;
  float* dense = activations_.experts.shared;
  weights.dense->run(backend_, activations_.feed_forward, x, rows_, dense);
  weights.dense_post_norm.run(backend_, dense, rows_, dense);
  weights.router_norm.run(backend_, hidden_, rows_, normed);
  weights.experts->route(backend_, activations_.experts, normed, rows_, {});
  weights.routed_norm.run(backend_, hidden_, rows_, normed);
  weights.experts->run(backend_, activations_.feed_forward, activations_.experts, normed, rows_, out);
  weights.routed_post_norm.run(backend_, out, rows_, out);
  backend_.add(out, dense, rows_ * config_.embedding, 1);
}

}  // namespace cairn
