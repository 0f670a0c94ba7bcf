#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Nemotron 4 and Minitron: layer norms, squares of ReLU without a gate.
Result<void> read_nemotron_config(const MetadataReader& keys, DecoderConfig& config) {
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  config.feed_forward.activation = kernels::Activation::kReluSquared;
  config.feed_forward.gated = false;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
