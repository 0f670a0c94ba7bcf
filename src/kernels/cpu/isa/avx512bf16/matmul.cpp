// Products that AVX512_BF16 adds to avx512/: BF16 weights times activations rounded to bfloat16, with a pair of columns
// per lane and twice the products of float32 per instruction.
#include "kernels/cpu/matmul/matmul.h"

#include <cstring>

#if defined(__x86_64__)
#include "kernels/cpu/isa/avx512/vector.h"
#include "kernels/cpu/matmul/matmul_float_body.h"

namespace cairn::kernels::cpu {
namespace {

struct Bf16Vector : Vector {
  using Input = Bf16;
  static constexpr int kColumns = 2 * kLanes;
  // Accumulators of 8 rows x 3 tokens, 3 activations and a weight take 28 of 32 registers.
  static constexpr int kRows = 8;
  static constexpr int kTokens = 3;
  using Vector::load;
  static __m512bh load(const Bf16* from) { return __builtin_bit_cast(__m512bh, _mm512_loadu_si512(from)); }
  static F multiply_add(__m512bh a, __m512bh b, F c) { return _mm512_dpbf16_ps(c, a, b); }
};

void quantize_row(const float* x, int64_t cols, std::byte* out) { kAvx512Matmul.quantize_row(x, cols, out); }

// Rounds sixteen floats to bfloat16.
void round(__m512 x, std::byte* out) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out), __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x)));
}

void round_row(const float* x, int64_t cols, std::byte* out) {
  constexpr int64_t kLanes = Vector::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) round(_mm512_loadu_ps(x + i), out + 2 * i);
  if (i < cols) {
    round(Vector::load_some(x + i, cols - i), out + 2 * i);
    i += kLanes;
  }
  std::memset(out + 2 * i, 0, bf16_row_bytes(cols) - static_cast<size_t>(2 * i));
}

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const MatmulFunction product =
      type == TensorType::kBF16 ? FloatProducts<Bf16Vector>::matmul : kAvx512Matmul.matmul_rows;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

void matmul_panels(TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
                   const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  kAvx512Matmul.matmul_panels(type, panels, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kAvx512Bf16Matmul = {"avx512bf16", quantize_row, matmul_rows, matmul_panels, round_row};

}  // namespace cairn::kernels::cpu
#endif
