#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// GLM 4.5 to 4.7, mixtures: dense layers first, then experts chosen by sigmoids with a bias beside one for all rows.
// The norm before the feed-forward has the name of one after attention. Smaller models do not normalise queries and
// keys.
Result<void> read_glm4moe_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(leave_out_mtp_layers(keys, config));
  config.feed_forward_norm = "post_attention_norm";
  if (keys.file().find_tensor("blk.0.attn_q_norm.weight") != nullptr) config.qk_norm = QkNorm::kPerHead;
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  CAIRN_TRY_VOID(read_routing_config(keys, {.score = kernels::RouteScore::kSigmoid}, config));
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  describe_mtp_layer(config);
  return {};
}

}  // namespace cairn::model
