#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

namespace {
constexpr size_t kNoRopePeriod = 4;
}

// SmolLM 3: llama whose every fourth layer knows no positions.
Result<void> read_smollm3_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  for (size_t i = kNoRopePeriod - 1; i < config.layers.size(); i += kNoRopePeriod) {
    config.layers[i].rope = kNoRope;
  }
  return {};
}

}  // namespace cairn::model
