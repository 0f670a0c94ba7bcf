#include "model/arch/table.h"

namespace cairn {

// BERT, and what was trained in its shape (BGE, E5, MiniLM, XLM-RoBERTa): learned positions, feed-forward without gate.
Result<void> describe_bert(const Keys& /*keys*/, EncoderDescription& description) {
  description.learned_positions = true;
  description.gated = false;
  return {};
}

}  // namespace cairn
