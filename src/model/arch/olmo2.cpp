#include "model/arch/table.h"
#include "model/parts/rope.h"

namespace cairn::model {

// OLMo 2 and 3: norms only after attention and feed-forward, queries and keys normalised over all heads. OLMo 3 has
// windows in three of four layers, and scales the rope of the fourth only.
Result<void> read_olmo2_config(const MetadataReader& keys, DecoderConfig& config) {
  constexpr int64_t kPeriod = 4;
  config.residual.pre_norms = false;
  config.residual.post_norms = true;
  config.qk_norm = QkNorm::kAllHeads;
  CAIRN_TRY(RopeConfig rope, read_rope(keys, kernels::RopeStyle::kNeoX, config.rope_sizes()));
  config.ropes.push_back(std::move(rope));
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", 0, 0, kContextMax));
  if (window == 0) return {};
  CAIRN_TRY(RopeConfig window_rope, read_window_rope(keys, kernels::RopeStyle::kNeoX, 0, config.rope_sizes()));
  config.ropes.push_back(std::move(window_rope));
  return read_windows_config(keys, window, kPeriod, 1, config);
}

}  // namespace cairn::model
