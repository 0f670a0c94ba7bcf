#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

// Nomic's BERT: rotated queries and keys, SwiGLU, no biases.
Result<void> describe_nomic_bert(const Keys& keys, EncoderDescription& description) {
  description.activation = Activation::kSilu;
  DecoderDescription rotary;
  rotary.key_dim = description.head_dim;
  rotary.context_trained = description.context_trained;
  rotary.context_tokens = description.context_tokens;
  CAIRN_TRY(description.rope, read_rope(keys, RopeStyle::kHalves, rotary));
  return {};
}

}  // namespace cairn
