#include "model/parts/hyper_connections.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"
#include "model/batch_rows.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

int64_t HyperConnectionConfig::saved_elements() const {
  return width() + (carried ? kernels::stream_shares(streams) : 0);
}

Result<StreamWeights> StreamWeights::load(WeightLoader& loader, const std::string& name,
                                          const HyperConnectionConfig& config) {
  constexpr int64_t kKinds = 3;  // of shares
  StreamWeights weights;
  const int32_t shares = kernels::stream_shares(config.streams);
  CAIRN_TRY(weights.logits, loader.linear(name + "_fn", shares, config.width()));
  CAIRN_TRY(weights.scale, loader.vector(name + "_scale.weight", kKinds));
  CAIRN_TRY(weights.base, loader.vector(name + "_base.weight", shares));
  return weights;
}

Result<StreamWeights> StreamWeights::load_output(WeightLoader& loader, const std::string& name,
                                                 const HyperConnectionConfig& config) {
  StreamWeights weights;
  CAIRN_TRY(weights.logits, loader.linear(name + "_fn", config.streams, config.width()));
  CAIRN_TRY(weights.scale, loader.vector(name + "_scale.weight", 1));
  CAIRN_TRY(weights.base, loader.vector(name + "_base.weight", config.streams));
  return weights;
}

void HyperConnectionActivations::add_to(ActivationArena& arena, const HyperConnectionConfig& config, int64_t rows) {
  const int64_t columns = kernels::stream_shares(config.streams);
  arena.add(streams, rows * config.width());
  arena.add(streams_next, rows * config.width());
  arena.add(flat, rows * config.width());
  arena.add(share_logits, rows * columns);
  arena.add(shares, rows * columns);
  arena.add(shares_next, config.carried ? rows * columns : 0);
  arena.add(shares_first, config.carried ? rows * columns : 0);
  arena.add(shares_even, config.averaged ? rows * columns : 0);
}

void HyperConnections::prepare(const HyperConnectionActivations& activations, int64_t rows) {
  activations_ = activations;
  stream_rows_.reserve(rows * config_.streams);
  const int64_t columns = kernels::stream_shares(config_.streams);
  std::vector<float> shares(rows * columns);
  const auto bytes = static_cast<int64_t>(shares.size() * sizeof(float));
  if (config_.carried) {
    // The first block reads the first stream.
    for (int64_t row = 0; row < rows; ++row) shares[row * columns] = 1;
    backend_.write(shares.data(), bytes, activations_.shares_first);
  }
  if (!config_.averaged) return;
  for (int64_t row = 0; row < rows; ++row) {
    std::fill_n(shares.begin() + row * columns, config_.streams, 1 / static_cast<float>(config_.streams));
  }
  backend_.write(shares.data(), bytes, activations_.shares_even);
}

void HyperConnections::begin_step() {
  if (activations_.streams > activations_.streams_next) std::swap(activations_.streams, activations_.streams_next);
  if (!config_.carried) return;
  if (activations_.shares > activations_.shares_next) std::swap(activations_.shares, activations_.shares_next);
  carried_ = activations_.shares_first;
}

void HyperConnections::save(std::span<float> saved, int32_t rows) {
  constexpr auto kStreamBytes = static_cast<int64_t>(sizeof(float));
  CAIRN_CHECK(std::ssize(saved) == rows * config_.saved_elements());
  const int64_t elements = rows * config_.width();
  backend_.read(activations_.streams, elements * kStreamBytes, saved.data());
  if (!config_.carried) return;
  backend_.read(carried_, rows * kernels::stream_shares(config_.streams) * kStreamBytes, saved.data() + elements);
}

void HyperConnections::load(std::span<const float> saved, int32_t rows) {
  constexpr auto kStreamBytes = static_cast<int64_t>(sizeof(float));
  CAIRN_CHECK(std::ssize(saved) == rows * config_.saved_elements());
  const int64_t elements = rows * config_.width();
  backend_.write(saved.data(), elements * kStreamBytes, activations_.streams);
  if (!config_.carried) return;
  backend_.write(saved.data() + elements, rows * kernels::stream_shares(config_.streams) * kStreamBytes,
                 activations_.shares);
  carried_ = activations_.shares;
  std::swap(activations_.shares, activations_.shares_next);
}

void HyperConnections::repeat(const float* x, int32_t rows, float* streams) {
  stream_rows_.clear();
  for (int32_t row = 0; row < rows; ++row) stream_rows_.insert(stream_rows_.end(), config_.streams, row);
  backend_.gather_rows(x, stream_rows_, config_.embedding, streams);
}

void HyperConnections::find_logits(const StreamWeights& weights, int32_t rows) {
  backend_.rms_norm(activations_.streams, nullptr, config_.norm_epsilon, rows, config_.width(), activations_.flat);
  const kernels::MatmulTarget logits[] = {weights.logits.to(activations_.share_logits)};
  backend_.matmul(logits, activations_.flat, rows);
}

void HyperConnections::read(const StreamWeights& weights, const Norm& norm, int32_t rows, float* input) {
  const int32_t streams = config_.streams;
  find_logits(weights, rows);
  const kernels::StreamParams params{streams, config_.rounds, config_.epsilon, weights.scale.floats(),
                                     weights.base.floats()};
  kernels::HyperConnectionOperations& operations = *backend_.hyper_connections();
  operations.hyper_connection_weights(params, activations_.share_logits, rows, activations_.shares);
  const float* reads = config_.carried ? carried_ : activations_.shares;
  operations.hyper_connection_read(activations_.streams, reads, kernels::stream_shares(streams), streams, rows,
                                   config_.embedding, input);
  norm.run(backend_, input, rows, input);
}

void HyperConnections::write(const float* block, int32_t rows) {
  backend_.hyper_connections()->hyper_connection_write(activations_.streams, block, activations_.shares,
                                                       config_.streams, rows, config_.embedding,
                                                       activations_.streams_next);
  std::swap(activations_.streams, activations_.streams_next);
  if (!config_.carried) return;
  carried_ = activations_.shares;
  std::swap(activations_.shares, activations_.shares_next);
}

void HyperConnections::choose(std::span<const int32_t> first, std::span<const int32_t> then) {
  gather_chosen(backend_, activations_.streams, first, then, config_.width(), activations_.streams_next);
  std::swap(activations_.streams, activations_.streams_next);
  if (!config_.carried) return;
  gather_chosen(backend_, carried_, first, then, kernels::stream_shares(config_.streams), activations_.shares);
  carried_ = activations_.shares;
  std::swap(activations_.shares, activations_.shares_next);
}

void HyperConnections::collapse(const StreamWeights& weights, int32_t rows, float* out) {
  const int32_t streams = config_.streams;
  kernels::HyperConnectionOperations& operations = *backend_.hyper_connections();
  if (config_.carried) {
    return operations.hyper_connection_read(activations_.streams, carried_, kernels::stream_shares(streams), streams,
                                            rows, config_.embedding, out);
  }
  find_logits(weights, rows);
  const kernels::StreamParams params{streams, 0, config_.epsilon, weights.scale.floats(), weights.base.floats()};
  operations.gate_streams(params, activations_.share_logits, rows, activations_.shares);
  operations.hyper_connection_read(activations_.streams, activations_.shares, streams, streams, rows, config_.embedding,
                                   out);
}

void HyperConnections::average(int32_t rows, float* out) {
  backend_.hyper_connections()->hyper_connection_read(activations_.streams, activations_.shares_even,
                                                      kernels::stream_shares(config_.streams), config_.streams, rows,
                                                      config_.embedding, out);
}

}  // namespace cairn::model
