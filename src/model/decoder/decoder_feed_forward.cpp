#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The feed-forwards of Decoder: dense ones and experts.
namespace cairn::model {

void Decoder::feed_forward(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_of(layer);
  const float* x = residual_.read_for_feed_forward(weights.feed_forward_norm, weights.feed_forward_streams, rows_);
  float* block = residual_.block();
  if (config_.layer(layer).routed && config_.experts->beside_dense) {
    dense_and_routed(weights, x, block);
  } else if (config_.layer(layer).routed) {
    weights.experts->route(backend_, activations_.experts, x, rows_, tokens_);
    weights.experts->run(backend_, activations_.feed_forward, activations_.experts, x, rows_, block);
  } else {
    weights.dense->run(backend_, activations_.feed_forward, x, rows_, block);
  }
  control_vectors_.after_feed_forward(backend_, layer, block, rows_);
  residual_.write(weights.feed_forward_post_norm, rows_);
}

void Decoder::dense_and_routed(const LayerWeights& weights, const float* x, float* out) {
  const float* stream = residual_.stream(rows_);
  float* normed = activations_.residual.normed;
  float* dense = activations_.experts.shared;
  weights.dense->run(backend_, activations_.feed_forward, x, rows_, dense);
  weights.dense_post_norm.run(backend_, dense, rows_, dense);
  weights.router_norm.run(backend_, stream, rows_, normed);
  weights.experts->route(backend_, activations_.experts, normed, rows_, {});
  weights.routed_norm.run(backend_, stream, rows_, normed);
  weights.experts->run(backend_, activations_.feed_forward, activations_.experts, normed, rows_, out);
  weights.routed_post_norm.run(backend_, out, rows_, out);
  backend_.add(out, dense, rows_ * config_.embedding, 1);
}

}  // namespace cairn::model
