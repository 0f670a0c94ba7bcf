#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Qwen 1.5 to 2.5: llama with biases on queries, keys and values, and the other rotation.
Result<void> describe_qwen2(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kHalves, description));
  description.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn
