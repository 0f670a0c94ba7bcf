#include "model/parts/feed_forward.h"

#include <limits>
#include <span>

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

namespace cairn::model {

void FeedForwardActivations::activate(kernels::RowOperations& operations, const FeedForwardConfig& config,
                                      int64_t rows) const {
  if (config.clamp) {
    constexpr float kUnbounded = -std::numeric_limits<float>::infinity();
    if (config.gated) operations.clamp(gate, rows * config.length, kUnbounded, *config.clamp);
    operations.clamp(up, rows * config.length, -*config.clamp, *config.clamp);
  }
  operations.gate(config.activation, config.gated ? gate : up, config.gated ? up : nullptr, rows, config.length, up);
}

Result<std::unique_ptr<FeedForward>> FeedForward::load(WeightLoader& loader, const std::string& prefix,
                                                       const std::string& ending, int64_t embedding,
                                                       const FeedForwardConfig& config) {
  auto made = std::make_unique<FeedForward>();
  made->config_ = config;
  const int64_t length = config.length;
  const std::string up = prefix + "up" + ending;
  if (config.fused) {
    CAIRN_TRY(made->gate_, loader.linear_rows(up, 2 * length, embedding, {0, length}));
    CAIRN_TRY(made->up_, loader.linear_rows(up, 2 * length, embedding, {length, length}));
  } else {
    if (config.gated) {
      CAIRN_TRY(made->gate_, loader.linear(prefix + "gate" + ending, length, embedding));
    }
    CAIRN_TRY(made->up_, loader.linear(up, length, embedding));
  }
  CAIRN_TRY(made->down_, loader.linear(prefix + "down" + ending, embedding, length));
  return made;
}

void FeedForward::run(kernels::Backend& backend, const FeedForwardActivations& activations, const float* x,
                      int32_t rows, float* out) const {
  const kernels::MatmulTarget in[] = {gate_.to(activations.gate), up_.to(activations.up)};
  backend.matmul(std::span(in).subspan(config_.gated ? 0 : 1), x, rows);
  activations.activate(backend, config_, rows);
  const kernels::MatmulTarget down[] = {down_.to(out)};
  backend.matmul(down, activations.up, rows);
}

}  // namespace cairn::model
