#include "model/arch/table.h"
#include "model/rope.h"

namespace cairn {

namespace {
constexpr int64_t kPeriod = 4;
}

// OLMo 2 and 3: norms only after attention and feed-forward, queries and keys normalised over all heads. OLMo 3 has
// windows in three of four layers, and scales the rope of the fourth only.
Result<void> describe_olmo2(const Keys& keys, DecoderDescription& description) {
  description.pre_norms = false;
  description.post_norms = true;
  description.qk_norm = QkNorm::kAllHeads;
  CAIRN_TRY(RopeDescription rope, read_rope(keys, RopeStyle::kHalves, description));
  description.ropes.push_back(std::move(rope));
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", 0, 0, kContextMax));
  if (window == 0) return {};
  CAIRN_TRY(RopeDescription window_rope, read_window_rope(keys, RopeStyle::kHalves, 0, description));
  description.ropes.push_back(std::move(window_rope));
  return describe_windows(keys, window, kPeriod, 1, description);
}

}  // namespace cairn
