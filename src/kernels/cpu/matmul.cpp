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

int64_t weight_row_bytes(TensorType type, int64_t cols) { return row_bytes(type, cols); }

void decode_weights(TensorType type, const std::byte* blocks, int64_t cols, float* out) {
  decode_row(type, std::span(blocks, static_cast<size_t>(row_bytes(type, cols))),
             std::span(out, static_cast<size_t>(cols)));
}

}  // namespace cairn::cpu
