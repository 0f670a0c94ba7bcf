#include "model/arch/table.h"

namespace cairn::model {

// Nomic's second BERT: rotated queries and keys, biases, and feed-forward without gate, in every moe_every_n_layers-th
// layer, beginning with the second, as experts. Their shares are the softmax over all experts as it is.
Result<void> read_nomic_bert_moe_config(const MetadataReader& keys, EncoderConfig& config) {
  config.feed_forward.gated = false;
  CAIRN_TRY_VOID(read_encoder_rope(keys, config));
  CAIRN_TRY(const int64_t every, keys.integer("moe_every_n_layers", 0, kLayersMax));
  if (every == 0) return {};
  CAIRN_TRY(config.experts, read_experts(keys, config.feed_forward.length));
  for (size_t i = 1; i < config.layers.size(); i += static_cast<size_t>(every)) config.layers[i].routed = every > 1;
  return {};
}

}  // namespace cairn::model
