/// What parameters some of Backend's operations take. Part of the interface of kernels/backend.h, without its results:
/// CUDA's compiler, which has no std::expected, reads this too.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/host_device.h"

namespace cairn::kernels {

enum class RopeStyle {
  kInterleaved,  ///< pairs (0,1), (2,3), ... ("normal", llama)
  kNeoX,         ///< pairs (0,d/2), (1,d/2+1), ... ("neox")
};

/// What RoPE rotates: x [rows, heads, head_dim].
struct RopeHeads {
  float* x = nullptr;
  int32_t heads = 0;
};

struct AttentionParams {
  int32_t heads = 0;   ///< query heads, a multiple of kv_heads; query head h reads kv head h / (heads / kv_heads)
  float scale = 1;     ///< multiplies q.k; > 0
  float soft_cap = 0;  ///< > 0: score = cap * tanh(score / cap)
  /// > 0: position p sees positions > p - window only; without `causal`, those at most window / 2 away on both sides.
  int32_t window = 0;
  bool chunked = false;  ///< windows lie at the multiples of their length: p sees positions from p - p % window only
  const float* sinks = nullptr;  ///< [heads], joins each softmax's denominator as exp(sink); or null
  /// Whether a row sees no later positions. Without it every row sees the whole of its slice, which then begins at
  /// position 0, or its window of that.
  bool causal = true;
  /// [heads] or null (ALiBi): a score loses slope * |distance of its two positions|, after `scale`. No soft cap then.
  const float* slopes = nullptr;

  /// The first position that position p sees.
  CAIRN_HOST_DEVICE constexpr int32_t first_seen(int32_t p) const {
    if (window == 0) return 0;
    if (chunked) return p - p % window;
    return p >= window ? p - window + 1 : 0;
  }
};

}  // namespace cairn::kernels
