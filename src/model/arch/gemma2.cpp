#include "model/arch/table.h"

#include <cmath>

#include "model/rope.h"

namespace cairn {

namespace {
// The 27B model, known by its layers, scales scores by the width per head instead of the head's own size.
constexpr size_t kLayers27B = 46;
constexpr int64_t kWindow = 4'096;
}  // namespace

// Gemma 2: norms before and after, soft caps, every other layer with a window.
Result<void> describe_gemma2(const Keys& keys, DecoderDescription& description) {
  CAIRN_TRY_VOID(describe_gemma(keys, description));
  description.post_norms = true;
  if (description.layers.size() == kLayers27B) {
    description.attention_scale =
        1 / std::sqrt(static_cast<float>(description.embedding) / static_cast<float>(description.heads));
  }
  CAIRN_TRY(description.attention_cap, keys.number_or("attn_logit_softcapping", 50));
  CAIRN_TRY(description.logit_cap, keys.number_or("final_logit_softcapping", 30));
  CAIRN_TRY(const int64_t window, keys.integer_or("attention.sliding_window", kWindow, 1, kContextMax));
  return describe_windows(keys, window, 2, 0, description);
}

}  // namespace cairn
