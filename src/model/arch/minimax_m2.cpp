#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// MiniMax M2: every layer routed by sigmoids with a bias, queries and keys normalised over all heads.
Result<void> read_minimax_m2_config(const MetadataReader& keys, DecoderConfig& config) {
  config.qk_norm = QkNorm::kAllHeads;
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  CAIRN_TRY_VOID(read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid, .renormalise = true}, config));
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
