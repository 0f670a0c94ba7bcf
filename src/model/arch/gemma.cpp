#include "model/arch/table.h"

#include <cmath>

#include "model/parts/rope.h"

namespace cairn::model {

// Gemma 1: embeddings scaled by sqrt(width), GELU. Files store norm weights with the 1 already added.
Result<void> read_gemma_config(const MetadataReader& keys, DecoderConfig& config) {
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding));
  config.feed_forward.activation = kernels::Activation::kGeluTanh;
  config.output_is_embedding = true;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  return {};
}

}  // namespace cairn::model
