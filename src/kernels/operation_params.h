/// What parameters some of Backend's operations take. Part of the interface of kernels/backend.h, without its results:
/// CUDA's compiler, which has no std::expected, reads this too.
#pragma once

#include <cstdint>

namespace cairn {

enum class Activation { kSilu, kGeluTanh, kGeluErf, kRelu, kReluSquared };
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
  const float* sinks = nullptr;  ///< [heads], joins each softmax's denominator as exp(sink); or null
  /// Without it every row sees the whole of its slice, which then begins at position 0, or its window of that.
  bool causal = true;
  /// [heads] or null (ALiBi): a score loses slope * |distance of its two positions|, after `scale`. No soft cap then.
  const float* slopes = nullptr;
};

}  // namespace cairn
