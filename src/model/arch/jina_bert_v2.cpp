#include "model/arch/table.h"

namespace cairn::model {

// Jina's second BERT: ALiBi in both directions instead of positions, GEGLU.
Result<void> read_jina_bert_v2_config(const MetadataReader& /*keys*/, EncoderConfig& config) {
  config.slopes = alibi_slopes(config.heads);
  return {};
}

}  // namespace cairn::model
