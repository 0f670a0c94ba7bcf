#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// GLM 4, dense: norms before and after, gate and up in one matrix, a rope over half of each head.
Result<void> read_glm4_config(const MetadataReader& keys, DecoderConfig& config) {
  if (keys.contains("rope.dimension_sections")) {
    return fail(Code::kUnsupported, "{}: the order of a head's rows in vision models is not supported",
                keys.full("rope.dimension_sections"));
  }
  config.residual.post_norms = true;
  config.feed_forward.fused = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
