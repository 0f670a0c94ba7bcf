#include "model/arch/table.h"

namespace cairn::model {

// Nomic's BERT: rotated queries and keys, SwiGLU, no biases.
Result<void> read_nomic_bert_config(const MetadataReader& keys, EncoderConfig& config) {
  config.feed_forward.activation = kernels::Activation::kSilu;
  return read_encoder_rope(keys, config);
}

}  // namespace cairn::model
