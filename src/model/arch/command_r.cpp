#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Command R and R+: attention and feed-forward beside each other, behind one layer norm. R+, the larger one, normalises
// queries and keys.
Result<void> read_command_r_config(const MetadataReader& keys, DecoderConfig& config) {
  config.norm.kind = NormKind::kLayerNorm;
  config.residual.parallel = true;
  config.feed_forward_norm = {};
  if (keys.file().find_tensor("blk.0.attn_q_norm.weight") != nullptr) config.qk_norm = QkNorm::kLayerNormPerHead;
  CAIRN_TRY(config.logit_scale, keys.number("logit_scale"));
  if (!(config.logit_scale > 0)) {
    return fail(Code::kCorruptFile, "{} is {}, but it must be above zero", keys.full("logit_scale"),
                config.logit_scale);
  }
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kInterleaved, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
