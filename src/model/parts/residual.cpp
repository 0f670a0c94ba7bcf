#include "model/parts/residual.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/batch_rows.h"

namespace cairn::model {

void ResidualActivations::add_to(ActivationArena& arena, const ResidualConfig& config, int64_t embedding, int64_t rows,
                                 int64_t logit_rows) {
  const bool several = config.hyper_connections.has_value();
  arena.add(hidden, several ? 0 : rows * embedding);
  arena.add(normed, rows * embedding);
  arena.add(parallel, config.parallel ? rows * embedding : 0);
  arena.add(block, rows * embedding);
  arena.add(last, several ? 0 : std::max(rows, logit_rows) * embedding);
  if (several) streams.add_to(arena, *config.hyper_connections, rows);
}

void Residual::add_work(const ResidualConfig& config, int64_t rows, kernels::WorkspaceSizes& sizes) {
  if (config.hyper_connections) sizes.inputs.push_back({rows, config.hyper_connections->width()});
}

Residual::Residual(kernels::Backend& backend, const ResidualConfig& config, int64_t embedding)
    : backend_(backend), config_(config), embedding_(embedding) {
  if (config_.hyper_connections) hyper_.emplace(backend_, *config_.hyper_connections);
}

void Residual::prepare(const ResidualActivations& activations, int64_t rows) {
  activations_ = activations;
  if (hyper_) hyper_->prepare(activations.streams, rows);
}

float* Residual::begin_step() {
  pending_ = false;
  if (hyper_) {
    hyper_->begin_step();
    return activations_.normed;
  }
  hidden_ = activations_.hidden;
  return hidden_;
}

void Residual::spread(int32_t rows) {
  if (hyper_) hyper_->begin(activations_.normed, rows);
}

void Residual::load(std::span<const float> saved, int32_t rows) {
  if (hyper_) return hyper_->load(saved, rows);
  CAIRN_CHECK(std::ssize(saved) == rows * embedding_);
  backend_.write(saved.data(), static_cast<int64_t>(saved.size_bytes()), hidden_);
}

void Residual::save(std::span<float> saved, int32_t rows) {
  if (hyper_) return hyper_->save(saved, rows);
  CAIRN_CHECK(std::ssize(saved) == rows * embedding_);
  backend_.read(stream(rows), static_cast<int64_t>(saved.size_bytes()), saved.data());
}

const float* Residual::read(const Norm& norm, const StreamWeights& streams, int32_t rows) {
  if (hyper_) {
    hyper_->read(streams, norm, rows, activations_.normed);
    return activations_.normed;
  }
  if (!config_.pre_norms) return stream(rows);
  norm_stream(norm, rows, activations_.normed);
  return activations_.normed;
}

const float* Residual::read_for_feed_forward(const Norm& norm, const StreamWeights& streams, int32_t rows) {
  if (!config_.parallel) return read(norm, streams, rows);
  stream(rows);  // with attention's block, whose array the feed-forward's takes
  return parallel_input_;
}

void Residual::keep_parallel(const Norm& feed_forward_norm, const float* x, int32_t rows) {
  if (!config_.parallel) return;
  parallel_input_ = x;
  if (!feed_forward_norm.exists()) return;
  norm_stream(feed_forward_norm, rows, activations_.parallel);
  parallel_input_ = activations_.parallel;
}

void Residual::write(const Norm& post_norm, int32_t rows) {
  if (hyper_) return hyper_->write(activations_.block, rows);
  if (config_.post_norms) post_norm.run(backend_, activations_.block, rows, activations_.block);
  pending_ = true;
}

float* Residual::stream(int32_t rows) {
  if (hyper_) return hyper_->streams();
  if (std::exchange(pending_, false)) {
    backend_.add(hidden_, activations_.block, rows * embedding_, config_.scale);
  }
  return hidden_;
}

const float* Residual::mean(int32_t rows) {
  if (!hyper_) return stream(rows);
  hyper_->average(rows, activations_.normed);
  return activations_.normed;
}

void Residual::choose(std::span<const int32_t> first, std::span<const int32_t> then, int32_t rows) {
  if (hyper_) return hyper_->choose(first, then);
  gather_chosen(backend_, stream(rows), first, then, embedding_, activations_.last);
  hidden_ = activations_.last;
  if (!config_.parallel) return;
  float* other = parallel_input_ == activations_.parallel ? activations_.normed : activations_.parallel;
  gather_chosen(backend_, parallel_input_, first, then, embedding_, other);
  parallel_input_ = other;
}

float* Residual::finish(const Norm& norm, const StreamWeights& streams, int32_t rows) {
  if (!hyper_) {
    if (rows > 0) norm_stream(norm, rows, hidden_);
    return hidden_;
  }
  if (rows > 0) {
    hyper_->collapse(streams, rows, activations_.normed);
    norm.run(backend_, activations_.normed, rows, activations_.normed);
  }
  return activations_.normed;
}

void Residual::norm_stream(const Norm& norm, int32_t rows, float* out) {
  if (std::exchange(pending_, false)) {
    norm.add_and_run(backend_, hidden_, activations_.block, config_.scale, rows, out);
  } else {
    norm.run(backend_, hidden_, rows, out);
  }
}

}  // namespace cairn::model
