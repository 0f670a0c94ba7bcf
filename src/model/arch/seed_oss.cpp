#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Seed-OSS: the norm before the feed-forward has the name of one after attention.
Result<void> read_seed_oss_config(const MetadataReader& keys, DecoderConfig& config) {
  config.feed_forward_norm = "post_attention_norm";
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
