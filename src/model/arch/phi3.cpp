#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

namespace {
// Phi 3 mini and medium for 4k have windows that the first files of them do not name; later models name theirs, or 0.
constexpr int32_t kContext4k = 4'096;
constexpr int64_t kWindow4k = 2'047;
}  // namespace

// Phi 3 and 4: gate and up in one matrix, queries, keys and values in another, LongRoPE, windows in all layers.
Result<void> describe_phi3(const Keys& keys, DecoderDescription& description) {
  description.fused_gate_up = true;
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kHalves, description));
  description.ropes.push_back(std::move(rope));
  const int64_t unnamed = description.context_trained == kContext4k ? kWindow4k : 0;
  return describe_window_everywhere(keys, unnamed, description);
}

}  // namespace cairn
