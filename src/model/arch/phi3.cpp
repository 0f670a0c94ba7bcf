#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Phi 3 and 4: gate and up in one matrix, queries, keys and values in another, LongRoPE. A sliding window in the
// metadata is ignored: converters did not fill that key reliably.
Result<void> describe_phi3(const Keys& keys, DecoderDescription& description) {
  description.fused_gate_up = true;
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kHalves, description));
  description.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn
