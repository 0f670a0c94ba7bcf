#include "model/arch/table.h"

namespace cairn::model {

// BERT, and what was trained in its shape (BGE, E5, MiniLM, RoBERTa, XLM-RoBERTa): learned positions, feed-forward
// without gate. Converters cut off the first rows of RoBERTa's positions, which no token has. DistilBERT is the one
// without token types, and its head has another activation.
Result<void> read_bert_config(const MetadataReader& /*keys*/, EncoderConfig& config) {
  config.learned_positions = true;
  config.feed_forward.gated = false;
  if (config.token_types == 0) config.label_activation = kernels::Activation::kRelu;
  return {};
}

}  // namespace cairn::model
