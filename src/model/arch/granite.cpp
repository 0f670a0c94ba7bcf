#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// Granite 3 and 4, dense and mixtures: llama with a scale on embeddings, residuals, attention and logits.
Result<void> read_granite_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_llama_config(keys, config));
  CAIRN_TRY(const float divisor, keys.number("logit_scale"));
  if (divisor == 0) {
    return fail(Code::kCorruptFile, "{} is 0, but logits are divided by it", keys.full("logit_scale"));
  }
  config.logit_scale = 1 / divisor;
  CAIRN_TRY(config.embedding_scale, keys.number_or("embedding_scale", 1));
  CAIRN_TRY(config.residual.scale, keys.number_or("residual_scale", 1));
  CAIRN_TRY(const float scale, keys.number_or("attention.scale", 0));
  if (scale < 0) {
    return fail(Code::kCorruptFile, "{} is {}, but attention scores are to be multiplied by a positive number",
                keys.full("attention.scale"), scale);
  }
  if (scale != 0) config.attention_scale = scale;
  CAIRN_TRY(const bool rotated, keys.boolean_or("rope.scaling.finetuned", true));
  for (LayerConfig& layer : config.layers) layer.rope = rotated ? 0 : kNoRope;
  return {};
}

}  // namespace cairn::model
