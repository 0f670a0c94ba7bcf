#include <span>

#include "kernels/backend.h"
#include "model/decoder/decoder.h"

// The feed-forwards of Decoder: dense ones and experts.
namespace cairn {

void Decoder::feed_forward(size_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& weights = weights_of(layer);
  const LayerConfig& config = description_.layer(layer);
  const float* x = nullptr;
  if (description_.parallel_residual) {
    hidden();  // with attention's block, whose array this one takes
    x = parallel_input_;
  } else {
    x = block_input(weights.feed_forward_norm);
  }
  float* block = activations_.block;
  if (config.routed && description_.experts->beside_dense) {
    dense_and_routed(layer, x, block);
  } else if (config.routed) {
    route(weights, x);
    routed(weights, x, block);
  } else {
    weights.dense.run(backend_, activations_.feed_forward, x, rows_, block);
  }
  directions_.after_feed_forward(backend_, layer, block, rows_);
  add_block(weights.feed_forward_post_norm);
}

void Decoder::dense_and_routed(size_t layer, const float* x, float* out) {
  const LayerWeights& weights = weights_of(layer);
  const int64_t width = description_.embedding;
  float* normed = activations_.normed;
  weights.dense.run(backend_, activations_.feed_forward, x, rows_, activations_.shared);
  weights.dense_post_norm.run(backend_, activations_.shared, rows_, activations_.shared);
  weights.router_norm.run(backend_, hidden_, rows_, normed);
  route(weights, normed);
  weights.routed_norm.run(backend_, hidden_, rows_, normed);
  routed(weights, normed, out);
  weights.routed_post_norm.run(backend_, out, rows_, out);
  backend_.add(out, activations_.shared, rows_ * width, 1);
}

void Decoder::route(const LayerWeights& weights, const float* x) {
  float* router = activations_.router;
  const MatmulTarget logits[] = {weights.router.to(router)};
  backend_.matmul(logits, x, rows_);
  RouteParams params = description_.experts->route;
  params.bias = weights.router_bias.floats();
  backend_.route(params, router, rows_, activations_.expert_ids, activations_.expert_weights);
}

void Decoder::routed(const LayerWeights& weights, const float* x, float* out) {
  const MoeConfig& experts = *description_.experts;
  const int32_t used = experts.route.used;
  const int32_t* ids = activations_.expert_ids;
  const float* shares = activations_.expert_weights;
  const FeedForwardActivations& inner = activations_.feed_forward;
  float* chosen = activations_.expert_out;
  float* latent = activations_.latent;
  const bool shorter = experts.latent > 0;
  const int64_t width = experts.row_width(description_.embedding);
  const float* input = x;
  if (shorter) {
    const MatmulTarget rows[] = {weights.latent_rows->down.to(latent)};
    backend_.matmul(rows, x, rows_);
    input = latent;
  }
  if (experts.weighted_inputs) {
    backend_.moe_combine(input, shares, rows_, used, width, chosen);
    input = chosen;
  }
  FeedForwardConfig form = description_.feed_forward;
  form.length = experts.width;
  const MatmulTarget in[] = {weights.routed.gate.to(inner.gate), weights.routed.up.to(inner.up)};
  backend_.grouped_matmul(std::span(in).subspan(form.gated ? 0 : 1), input, rows_, ids, used, false);
  inner.activate(backend_, form, int64_t{rows_} * used);
  float* result = shorter ? latent : out;
  const MatmulTarget down[] = {weights.routed.down.to(experts.weighted_inputs ? result : chosen)};
  backend_.grouped_matmul(down, inner.up, rows_, ids, used, true);
  if (!experts.weighted_inputs) backend_.moe_combine(chosen, shares, rows_, used, width, result);
  if (shorter) {
    const MatmulTarget rows[] = {weights.latent_rows->up.to(out)};
    backend_.matmul(rows, latent, rows_);
  }
  if (experts.shared_width > 0) shared(weights, x, out);
}

void Decoder::shared(const LayerWeights& weights, const float* x, float* out) {
  const MoeConfig& experts = *description_.experts;
  float* own = activations_.shared;
  weights.shared.run(backend_, activations_.feed_forward, x, rows_, own);
  if (experts.shared_gated) {
    float* gates = activations_.shared_gate;
    const MatmulTarget shared_gate[] = {weights.shared_gate.to(gates)};
    backend_.matmul(shared_gate, x, rows_);
    backend_.sigmoid_scale_rows(own, gates, rows_, description_.embedding);
  }
  backend_.add(out, own, rows_ * description_.embedding, 1);
}

}  // namespace cairn
