#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Llama 1 to 3, Mistral, Mixtral and what has their shape. The window of the first Mistral is in few files: the usual
// converter leaves it out.
Result<void> describe_llama(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_experts(keys, false, description));
  if (description.experts) description.experts->route.renormalise = true;
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kAdjacent, description));
  description.ropes.push_back(std::move(rope));
  return describe_window_everywhere(keys, 0, description);
}

}  // namespace cairn
