#include "model/arch/table.h"

#include <cmath>

#include "model/rope.h"

namespace cairn {

namespace {
// As in Gemma 2, the largest model's scale is by the width per head.
constexpr size_t kLayers27B = 62;
constexpr double kWindowRopeBase = 10'000;
constexpr int64_t kPeriod = 6;
}  // namespace

// Gemma 3: five layers with a window and an unscaled rope of their own, then one that sees everything.
Result<void> describe_gemma3(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_gemma(keys, description));
  description.post_norms = true;
  description.qk_norm = QkNorm::kPerHead;
  if (description.layers.size() == kLayers27B) {
    description.attention_scale =
        1 / std::sqrt(static_cast<float>(description.embedding) / static_cast<float>(description.heads));
  }
  CAIRN_TRY(description.logit_cap, keys.number_or("final_logit_softcapping", 0));
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", 0, 0, kContextMax));
  if (window == 0) return {};
  CAIRN_TRY(RopeDescription rope, read_window_rope(keys, RopeStyle::kHalves, kWindowRopeBase, description));
  description.ropes.push_back(std::move(rope));
  return describe_windows(keys, window, kPeriod, 1, description);
}

}  // namespace cairn
