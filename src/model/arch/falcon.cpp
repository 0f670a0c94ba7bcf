#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Falcon: attention and feed-forward beside each other, behind one norm (7B) or with one each (40B and 180B).
Result<void> read_falcon_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr std::string_view kLayout = "jploski";
  CAIRN_TRY(const std::string_view layout, keys.string_or("tensor_data_layout", kLayout));
  if (layout != kLayout) {
    return fail(Code::kUnsupported, "{} is \"{}\"; supported is {}: rows of queries, then keys, then values",
                keys.full("tensor_data_layout"), layout, kLayout);
  }
  config.norm.kind = NormKind::kLayerNorm;
  config.norm.biases = true;
  config.feed_forward.activation = kernels::Activation::kGeluErf;
  config.feed_forward.gated = false;
  config.residual.parallel = true;
  const bool two_norms = keys.file().find_tensor("blk.0.attn_norm_2.weight") != nullptr;
  config.attention_norm = two_norms ? "attn_norm_2" : "attn_norm";
  config.feed_forward_norm = two_norms ? "attn_norm" : "";
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
