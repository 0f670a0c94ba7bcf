#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// OLMoE: every layer routed, queries and keys normalised over all heads.
Result<void> read_olmoe_config(const MetadataReader& keys, DecoderConfig& config) {
  config.qk_norm = QkNorm::kAllHeads;
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  CAIRN_TRY_VOID(read_routing_config(keys, {}, config));
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
