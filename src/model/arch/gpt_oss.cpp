#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// gpt-oss: experts in all layers with biases and a clamped gate, attention sinks, a window in every other layer. The
// weights of experts are a softmax over the chosen logits: those of the softmax over all, renormalised.
Result<void> read_gpt_oss_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr int64_t kPeriod = 2;
  config.feed_forward.activation = kernels::Activation::kClampedSwiglu;
  config.attention_sinks = true;
  config.feed_forward_norm = "post_attention_norm";
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes(), /*yarn_truncates=*/false));
  config.ropes.push_back(std::move(rope));
  CAIRN_TRY(const int64_t window, keys.integer("attention.sliding_window", 1, kContextMax));
  CAIRN_TRY_VOID(read_windows_config(keys, window, kPeriod, 0, config));
  CAIRN_TRY_VOID(read_experts_config(keys, true, config));
  config.experts->route.renormalise = true;
  return {};
}

}  // namespace cairn::model
