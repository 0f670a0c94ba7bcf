#include "kernels/cpu/matmul/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/isa/avx512/quantize.h"
#include "kernels/cpu/isa/avx512/vector.h"
#include "kernels/cpu/matmul/matmul_float_body.h"

namespace cairn::kernels::cpu {
namespace {

struct FloatVector : Vector {
  using Input = float;
  static constexpr int kColumns = kLanes;
  // Accumulators of 6 rows x 4 tokens, 4 activations and a weight take 29 of 32 registers.
  static constexpr int kRows = 6;
  static constexpr int kTokens = 4;
  using Vector::load;
  static F multiply_add(F a, F b, F c) { return fma(a, b, c); }
  static F load(const Bf16* from) {
    const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
  }
};

// The tile for many tokens: it needs less of the L2 cache's bandwidth per product, but float32 rows would not fit into
// the L1 cache.
struct TallVector : FloatVector {
  static constexpr int kRows = 8;
  static constexpr int kTokens = 3;
};

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const bool tall = tokens > FloatVector::kTokens && (type == TensorType::kF16 || type == TensorType::kBF16);
  const MatmulFunction product = tall ? FloatProducts<TallVector>::matmul : FloatProducts<FloatVector>::matmul;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

void matmul_panels(TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
                   const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  MatmulFunction product = avx512_product_of_32(type);
  if (product == nullptr) product = avx512_product_of_256(type);
  product(type, panels, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kAvx512Matmul = {"avx512", quantize_row_of_16s, matmul_rows, matmul_panels, nullptr};

}  // namespace cairn::kernels::cpu
#endif
