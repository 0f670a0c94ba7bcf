#include "model/arch/table.h"

namespace cairn {

// Jina's second BERT: ALiBi in both directions instead of positions, GEGLU.
Result<void> describe_jina_bert_v2(const Keys& /*keys*/, EncoderDescription& description) {
  description.slopes = alibi_slopes(description.heads);
  return {};
}

}  // namespace cairn
