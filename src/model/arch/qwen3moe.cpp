#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Qwen 3 mixtures: every layer routed, no shared expert.
Result<void> read_qwen3moe_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_qwen3_config(keys, config));
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  config.experts->route.renormalise = true;
  return {};
}

}  // namespace cairn::model
