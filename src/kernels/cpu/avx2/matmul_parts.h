/// The pieces of kAvx2Matmul, see kernels/cpu/matmul.h.
#pragma once

#include "kernels/cpu/matmul.h"

namespace cairn::cpu::avx2 {

void quantize_row(const float* x, int64_t cols, std::byte* out);

/// matmul_rows of the types that use_int8.
void matmul_int8(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs);

/// matmul_rows of all others.
void matmul_float(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                  const std::byte* const* inputs, int32_t tokens, float* const* outputs);

}  // namespace cairn::cpu::avx2
