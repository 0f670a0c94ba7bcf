#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Hunyuan, dense: queries and keys are normalised after they are rotated.
Result<void> read_hunyuan_dense_config(const MetadataReader& keys, DecoderConfig& config) {
  config.qk_norm = QkNorm::kPerHead;
  config.qk_norm_after_rope = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
