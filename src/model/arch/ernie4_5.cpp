#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// ERNIE 4.5, dense.
Result<void> read_ernie4_5_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

// ERNIE 4.5, mixtures: experts are chosen by scores with a bias, and one more is for all rows.
Result<void> read_ernie4_5_moe_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_ernie4_5_config(keys, config));
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  CAIRN_TRY_VOID(read_expert_step_config(keys, config));
  return read_routing_config(keys, {.renormalise = true}, config);
}

}  // namespace cairn::model
