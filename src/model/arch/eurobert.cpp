#include "model/arch/table.h"

namespace cairn::model {

// EuroBERT: Llama's layers, of which every row sees the whole text.
Result<void> read_eurobert_config(const MetadataReader& keys, EncoderConfig& config) {
  config.norms = NormPlacement::kPreLn;
  config.norm.kind = NormKind::kRms;
  config.embedding_norm = false;
  config.feed_forward.activation = kernels::Activation::kSilu;
  return read_encoder_rope(keys, config);
}

}  // namespace cairn::model
