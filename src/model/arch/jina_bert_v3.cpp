#include "model/arch/table.h"

namespace cairn::model {

// Jina's third BERT: XLM-RoBERTa with rotated queries and keys instead of learned positions. Its adapters of tasks are
// files of their own, which are not read.
Result<void> read_jina_bert_v3_config(const MetadataReader& keys, EncoderConfig& config) {
  config.feed_forward.gated = false;
  return read_encoder_rope(keys, config);
}

}  // namespace cairn::model
