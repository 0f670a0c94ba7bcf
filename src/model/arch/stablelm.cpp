#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// StableLM: layer norms. The 12B model has attention and feed-forward beside each other, behind one norm, and
// normalises queries and keys; older files of it have no key for that, but no norm for the feed-forward either.
Result<void> read_stablelm_config(const MetadataReader& keys, DecoderConfig& config) {
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  const auto has = [&](const char* tensor) { return keys.file().find_tensor(tensor) != nullptr; };
  CAIRN_TRY(config.residual.parallel, keys.boolean_or("use_parallel_residual", !has("blk.0.ffn_norm.weight")));
  if (config.residual.parallel) config.feed_forward_norm = {};
  if (has("blk.0.attn_q_norm.weight")) config.qk_norm = QkNorm::kLayerNormPerHead;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
