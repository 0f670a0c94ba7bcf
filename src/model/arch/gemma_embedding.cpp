#include <cmath>

#include "model/arch/table.h"

namespace cairn::model {

// EmbeddingGemma: Gemma 3's layers, of which every row sees the whole text, or as much on both sides; and two matrices
// that pooled rows go through.
Result<void> read_gemma_embedding_config(const MetadataReader& keys, EncoderConfig& config) {
  config.norms = NormPlacement::kSandwich;
  config.norm.kind = NormKind::kRms;
  config.embedding_norm = false;
  config.embedding_scale = std::sqrt(static_cast<float>(config.embedding));
  config.qk_norm = true;
  config.feed_forward.activation = kernels::Activation::kGeluTanh;
  CAIRN_TRY_VOID(read_encoder_rope(keys, config));
  constexpr int64_t kPeriod = 6;
  constexpr double kWindowRopeBase = 10'000;
  CAIRN_TRY(const std::vector<bool> windows, keys.window_pattern(std::ssize(config.layers), kPeriod));
  return read_encoder_windows(keys, windows, kWindowRopeBase, config);
}

}  // namespace cairn::model
