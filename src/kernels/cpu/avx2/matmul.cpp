#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/avx2/matmul_parts.h"

namespace cairn::cpu {
namespace {

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const auto product = uses_int8(type) ? avx2::matmul_int8 : avx2::matmul_float;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

const MatmulKernels kAvx2Matmul = {"avx2", avx2::quantize_row, matmul_rows};

}  // namespace cairn::cpu
#endif
