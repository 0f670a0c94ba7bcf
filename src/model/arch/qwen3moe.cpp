#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Qwen 3 mixtures: every layer routed, no shared expert.
Result<void> describe_qwen3moe(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_qwen3(keys, description));
  CAIRN_TRY_VOID(describe_experts(keys, true, description));
  description.experts->route.renormalise = true;
  return {};
}

}  // namespace cairn
