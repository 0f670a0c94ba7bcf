#include "kernels/cpu/matmul.h"

#include <span>

#include "kernels/cpu/int8_row.h"
#include "quant/codec.h"

namespace cairn::cpu {

bool has_matmul(TensorType type) { return can_decode(type); }

size_t int8_row_bytes(int64_t cols) {
  // An odd number of cache lines: rows that are used together do not fall into the same sets of the L1 cache.
  return static_cast<size_t>(((int8_row_bytes_used(cols) + 63) / 64 | 1) * 64);
}

size_t bf16_row_bytes(int64_t cols) { return static_cast<size_t>(((cols * 2 + 63) / 64 | 1) * 64); }

ReadAhead read_ahead() {
#if defined(__x86_64__)
  // Zen 3 and 4. Zen 4's own prefetchers follow one stream as fast as memory is, and what waits for DRAM holds one of
  // the few places that its L1 cache has for lines on their way. Zen 5 reads Q4_K and Q6_K half as fast so.
  static const bool near = __builtin_cpu_is("amdfam19h") != 0;
  if (near) return {512, false};
#endif
  return {8192, true};
}

int64_t weight_row_bytes(TensorType type, int64_t cols) { return row_bytes(type, cols); }

void decode_weights(TensorType type, const std::byte* blocks, int64_t cols, float* out) {
  decode_row(type, std::span(blocks, static_cast<size_t>(row_bytes(type, cols))),
             std::span(out, static_cast<size_t>(cols)));
}

}  // namespace cairn::cpu
