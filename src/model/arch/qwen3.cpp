#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Qwen 3: queries and keys are normalised head by head.
Result<void> describe_qwen3(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_qwen2(keys, description));
  description.qk_norm = QkNorm::kPerHead;
  return {};
}

}  // namespace cairn
