#include "model/arch/table.h"

#include <cmath>

#include "model/parts/rope.h"

namespace cairn::model {

// Gemma 3: five layers with a window and an unscaled rope of their own, then one that sees everything.
Result<void> read_gemma3_config(const MetadataReader& keys, DecoderConfig& config) {
  CAIRN_TRY_VOID(read_gemma_config(keys, config));
  config.residual.post_norms = true;
  config.qk_norm = QkNorm::kPerHead;
  // The largest model's scale is by the width per head, as in Gemma 2.
  constexpr size_t kLayers27B = 62;
  if (config.layers.size() == kLayers27B) {
    config.attention_scale = 1 / std::sqrt(static_cast<float>(config.embedding) / static_cast<float>(config.heads));
  }
  CAIRN_TRY(config.final_logit_softcap, keys.number_or("final_logit_softcapping", 0));
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", 0, 0, kContextMax));
  if (window == 0) return {};
  constexpr double kWindowRopeBase = 10'000;
  CAIRN_TRY(RopeConfig rope, read_window_rope(keys, kernels::RopeStyle::kNeoX, kWindowRopeBase, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  constexpr int64_t kPeriod = 6;
  return read_windows_config(keys, window, kPeriod, 1, config);
}

}  // namespace cairn::model
