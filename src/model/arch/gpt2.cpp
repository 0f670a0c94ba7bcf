#include "model/arch/table.h"

namespace cairn::model {

// GPT-2: learned positions, no rope.
Result<void> read_gpt2_config(const MetadataReader& /*keys*/, DecoderConfig& config) {
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  config.feed_forward.activation = kernels::Activation::kGeluTanh;
  config.feed_forward.gated = false;
  config.learned_positions = true;
  for (LayerConfig& layer : config.layers) layer.rope = kNoRope;
  return {};
}

}  // namespace cairn::model
