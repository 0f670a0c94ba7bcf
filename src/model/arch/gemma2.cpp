#include "model/arch/table.h"

#include <cmath>

#include "model/parts/rope.h"

namespace cairn::model {

// Gemma 2: norms before and after, soft caps, every other layer with a window.
Result<void> read_gemma2_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_gemma_config(keys, config));
  config.residual.post_norms = true;
  // The 27B model, known by its layers, scales scores by the width per head instead of the head's own size.
  constexpr size_t kLayers27B = 46;
  if (config.layers.size() == kLayers27B) {
    config.attention_scale = 1 / std::sqrt(static_cast<float>(config.embedding) / static_cast<float>(config.heads));
  }
  CAIRN_TRY(config.attention_logit_softcap, keys.number_or("attn_logit_softcapping", 50));
  CAIRN_TRY(config.final_logit_softcap, keys.number_or("final_logit_softcapping", 30));
  constexpr int64_t kWindow = 4'096;
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", kWindow, 1, kContextMax));
  return read_windows_config(keys, window, 2, 0, config);
}

}  // namespace cairn::model
