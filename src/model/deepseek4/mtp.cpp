#include "base/check.h"
#include "kernels/backend.h"
#include "model/deepseek4/runner.h"

// The MTP module of ModelRunner. At position p it reads the token there and the streams that the model,
// or the block itself in a draft before, has left at p - 1; so what a step has computed is all that drafts need.
namespace cairn::deepseek4 {

Result<LogitsView> ModelRunner::mtp_step(const Batch& batch) {
  CAIRN_CHECK(config_.drafts());
  for (const BatchSlice& slice : batch.slices) CAIRN_CHECK(slice.rows == 1 && slice.logits == LogitsWanted::kLast);
  if (config_.dspark) return dspark_step(batch);
  plan(batch);
  backend_.begin_step();
  attention_.compute_ropes();
  begin_drafts(batch);
  const size_t layer = config_.main_layers();
  attention(layer);
  feed_forward(layer);
  store_streams(*batch.pool);
  const MtpWeights& weights = weights_.mtp;
  return logits(weights.output_streams.exist() ? weights.output_streams : weights_.output_streams,
                weights.output_norm.exists() ? weights.output_norm : weights_.output_norm);
}

void ModelRunner::follow(const Batch& batch) {
  if (weights_.adapter_rows != nullptr) weights_.adapter_rows->choose_all();
  rows_ = batch_.rows();
  begin_drafts(batch);
  const size_t layer = config_.main_layers();
  const LayerWeights& weights = weights_.layers[layer];
  streams_.read(weights.attention_streams, weights.attention_norm, rows_, activations_.input);
  store_keys(layer);
}

void ModelRunner::store_keys(size_t layer) {
  attention_.store_keys(weights_.layers[layer].attention, places_[layer], activations_.input);
}

void ModelRunner::begin_drafts(const Batch& batch) {
  const MtpWeights& weights = weights_.mtp;
  const int64_t width = config_.embedding, stream_rows = int64_t{rows_} * config_.streams;
  const KvPlace& place = places_.back().streams;
  backend_.mla()->load_previous_rows(batch.pool->view(place.group, place.layer), batch_.slices(place.group),
                                     streams_.flat());
  weights.stream_norm.run(backend_, streams_.flat(), stream_rows, streams_.flat());
  weights_.embedding.look_up(backend_, batch.tokens, 1, activations_.input);
  weights.token_norm.run(backend_, activations_.input, rows_, activations_.input);
  if (weights.pair.weight.rows > 0) {
    streams_.begin(activations_.input, rows_);
    backend_.copy_columns(streams_.streams(), width, activations_.pairs, 2 * width, stream_rows, width);
    backend_.copy_columns(streams_.flat(), width, activations_.pairs + width, 2 * width, stream_rows, width);
    const MatmulTarget both[] = {weights.pair.to(streams_.streams())};
    return backend_.matmul(both, activations_.pairs, static_cast<int32_t>(stream_rows));
  }
  const MatmulTarget token[] = {weights.token.to(activations_.block)};
  backend_.matmul(token, activations_.input, rows_);
  streams_.repeat(activations_.block, rows_, streams_.other());
  const MatmulTarget stream[] = {weights.stream.to(streams_.streams())};
  backend_.matmul(stream, streams_.flat(), static_cast<int32_t>(stream_rows));
  backend_.add(streams_.streams(), streams_.other(), stream_rows * width, 1);
}

}  // namespace cairn::deepseek4
