#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Nomic's BERT: rotated queries and keys, SwiGLU, no biases.
Result<void> read_nomic_bert_config(const MetadataReader& keys, EncoderConfig& config) {
  config.activation = Activation::kSilu;
  DecoderConfig rotary;
  rotary.key_dim = config.head_dim;
  rotary.context_trained = config.context_trained;
  rotary.context_tokens = config.context_tokens;
  CAIRN_TRY(config.rope, read_rope(keys, RopeStyle::kNeoX, rotary));
  return {};
}

}  // namespace cairn
