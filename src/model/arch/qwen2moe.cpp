#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Qwen 1.5 and 2 mixtures: routed experts whose weights are not renormalised, and a gated expert for all.
Result<void> read_qwen2moe_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_qwen2_config(keys, config));
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  if (config.experts->shared_width == 0) config.experts->shared_width = config.feed_forward.length;
  config.experts->shared_gated = true;
  return {};
}

}  // namespace cairn::model
