#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

namespace {
constexpr size_t kNoRopePeriod = 4;
}

// SmolLM 3: llama whose every fourth layer knows no positions.
Result<void> describe_smollm3(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kAdjacent, description));
  description.ropes.push_back(std::move(rope));
  for (size_t i = kNoRopePeriod - 1; i < description.layers.size(); i += kNoRopePeriod) {
    description.layers[i].rope = kNoRope;
  }
  return {};
}

}  // namespace cairn
