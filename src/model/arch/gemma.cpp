#include "model/arch/table.h"

#include <cmath>

#include "model/rope.h"

namespace cairn {

// Gemma 1: embeddings scaled by sqrt(width), GELU. Files store norm weights with the 1 already added.
Result<void> describe_gemma(const Keys& keys, DecoderDescription& description) {
  description.embedding_scale = std::sqrt(static_cast<float>(description.embedding));
  description.activation = Activation::kGeluTanh;
  description.output_is_embedding = true;
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kHalves, description));
  description.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn
