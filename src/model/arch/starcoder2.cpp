#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// StarCoder 2: layer norms, biases everywhere, GELU without a gate. Files may name a window for all layers; the usual
// converter leaves it out.
Result<void> read_starcoder2_config(const MetadataReader& keys, DecoderConfig& config) {
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  config.feed_forward.activation = kernels::Activation::kGeluTanh;
  config.feed_forward.gated = false;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return read_window_everywhere_config(keys, 0, config);
}

}  // namespace cairn::model
