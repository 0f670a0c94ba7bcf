#include "kernels/cpu/matmul/matmul.h"

#include <span>

#include "kernels/cpu/matmul/int8_row.h"
#include "quant/codec.h"

namespace cairn::kernels::cpu {

bool has_matmul(TensorType type) { return quant::can_decode(type); }

size_t int8_row_bytes(int64_t cols) {
  // An odd number of cache lines, so that rows that are used together do not fall into the same sets of the L1 cache.
  return static_cast<size_t>(((int8_row_bytes_used(cols) + 63) / 64 | 1) * 64);
}

size_t bf16_row_bytes(int64_t cols) { return static_cast<size_t>(((cols * 2 + 63) / 64 | 1) * 64); }

PrefetchPolicy read_ahead([[maybe_unused]] int32_t tokens) {
#if defined(__x86_64__)
  // Measured on Zen 3 (no AVX-512) and Zen 4; Zen 5 read Q4_K and Q6_K half as fast from its L2 cache. On Zen 4 one or
  // two tokens are bound by memory, which the hardware prefetchers read fastest: a software prefetch occupies one of
  // the few line-fill buffers of the L1 cache. More tokens compute in between, so that those prefetchers fall behind:
  // with a prefetch distance of only 512 bytes, eight tokens are half as fast. On Zen 3 they fall behind with one
  // token too.
  static const bool zen_3_or_4 = __builtin_cpu_is("amdfam19h") != 0;
  static const bool avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (zen_3_or_4 && avx512) return {8192, tokens <= 2 ? PrefetchPolicy::kNowhere : PrefetchPolicy::kL2};
  if (zen_3_or_4) return {2048, PrefetchPolicy::kL2};
  // Two cores of a Xeon with AVX-512 read 29 GB/s at this distance, but 19 at 8192 (Q4_K, Q6_K), and 21 without
  // prefetches (Q8_0); products of many tokens are as fast at 8192.
  constexpr int32_t kFewOnIntel = 8;
  static const bool intel = __builtin_cpu_is("intel") != 0;
  if (intel && tokens <= kFewOnIntel) return {2048, PrefetchPolicy::kL1};
#endif
  return {8192, PrefetchPolicy::kL1};
}

int64_t weight_row_bytes(TensorType type, int64_t cols) { return row_bytes(type, cols); }

void decode_weights(TensorType type, const std::byte* blocks, int64_t cols, float* out) {
  quant::decode_row(type, std::span(blocks, static_cast<size_t>(row_bytes(type, cols))),
                    std::span(out, static_cast<size_t>(cols)));
}

}  // namespace cairn::kernels::cpu
