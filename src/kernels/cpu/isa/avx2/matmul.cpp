#include "kernels/cpu/matmul/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/isa/avx2/vector.h"
#include "kernels/cpu/matmul/matmul_float_body.h"
#include "kernels/cpu/matmul/quantize_body.h"

namespace cairn::kernels::cpu {
namespace {

struct FloatVector : Vector {
  using Input = float;
  static constexpr int kColumns = kLanes;
  // Accumulators of 4 rows x 3 tokens, 3 activations and a weight fill the 16 registers.
  static constexpr int kRows = 4;
  static constexpr int kTokens = 3;
  using Vector::load;
  static F multiply_add(F a, F b, F c) { return fma(a, b, c); }
  static F load(const Bf16* from) {
    const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
  }
};

template <MatmulFunction (*kOf32)(TensorType), MatmulFunction (*kOf256)(TensorType)>
void matmul_panels(TensorType type, const std::byte* panels, int64_t cols, int64_t row_begin, int64_t row_end,
                   const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  MatmulFunction product = kOf32(type);
  if (product == nullptr) product = kOf256(type);
  product(type, panels, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kAvx2Matmul = {"avx2", quantize_row, FloatProducts<FloatVector>::matmul,
                                             matmul_panels<avx2_product_of_32, avx2_product_of_256>, nullptr};
// Only the int8 products differ from AVX2's (isa/avxvnni/).
constinit const MatmulKernels kAvxVnniMatmul = {"avxvnni", quantize_row, FloatProducts<FloatVector>::matmul,
                                                matmul_panels<avxvnni_product_of_32, avxvnni_product_of_256>, nullptr};

}  // namespace cairn::kernels::cpu
#endif
