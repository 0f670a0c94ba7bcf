#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Qwen 1.5 and 2 mixtures: routed experts whose weights are not renormalised, and a gated expert for all.
Result<void> describe_qwen2moe(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_qwen2(keys, description));
  CAIRN_TRY_VOID(describe_experts(keys, true, description));
  if (description.experts->shared_width == 0) description.experts->shared_width = description.feed_forward;
  description.experts->shared_gated = true;
  return {};
}

}  // namespace cairn
