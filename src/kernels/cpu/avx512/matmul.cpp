#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/avx512/vector.h"
#include "kernels/cpu/matmul_float_body.h"
#include "kernels/cpu/matmul_int8_body.h"
#include "kernels/cpu/quantize_body.h"

namespace cairn::cpu {
namespace {

struct FloatVector : Vector {
  // 4 rows x 6 tokens of accumulators, 6 activations and a weight: 31 of 32 registers.
  static constexpr int kTokens = 6;
  using Vector::load;
  static F load(const Bf16* from) {
    const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
  }
};

// With VNNI: four products of unsigned weights and signed activations straight into int32 (vpdpbusd).
struct Int8Vector {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  // 8 integer sums leave the scheduler half of the registers; 12 were slower on Zen 4, 16 spill.
  static constexpr int kTokens = 8;
  /// Whether many tokens want the type's blocks unpacked first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) { return type == Int8Type::kQ6_K; }
  static constexpr int vectors_at_once(Int8Type /*type*/) { return 1; }

  static I load(const void* from) { return _mm512_loadu_si512(from); }
  static F load_floats(const float* from) { return _mm512_loadu_ps(from); }
  static F load_halves(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store(void* to, I value) { _mm512_storeu_si512(to, value); }
  static void store(float* to, F value) { _mm512_storeu_ps(to, value); }

  static I masked(I v, int8_t mask) { return _mm512_and_si512(v, _mm512_set1_epi8(mask)); }
  static I either(I a, I b) { return _mm512_or_si512(a, b); }
  /// Within 16 bits: mask what comes from the neighbour.
  template <int kBits>
  static I shift_right(I v) {
    return _mm512_srli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_left(I v) {
    return _mm512_slli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_dwords_right(I v) {
    return _mm512_srli_epi32(v, kBits);
  }
  /// The halves in the low 16 bits of the dwords.
  static F low_halves(I v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  /// Q8_0's bytes are 128 more than the values.
  static constexpr int kQ8Planes = 1;
  template <int kPlane>
  static I q8_plane(I v) {
    return v;
  }
  /// Byte `i` of the dwords.
  static I byte(I dwords, int i) {
    return _mm512_and_si512(_mm512_srl_epi32(dwords, _mm_cvtsi32_si128(8 * i)), _mm512_set1_epi32(255));
  }
  /// The same with its sign.
  static I factor(I dwords, int i) {
    return _mm512_srai_epi32(_mm512_sll_epi32(dwords, _mm_cvtsi32_si128(24 - 8 * i)), 24);
  }

  static F multiply(F a, F b) { return _mm512_mul_ps(a, b); }
  static F multiply_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F multiply_subtract(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  static I broadcast4(const std::byte* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return _mm512_set1_epi32(value);
  }
  static F broadcast_float(const std::byte* from) { return _mm512_castsi512_ps(broadcast4(from)); }

  /// sums[t] += group(k, v) * y[t], for k in [kBegin, kEnd).
  template <int kBegin, int kEnd, int T, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[1]) {
#pragma GCC unroll 8
    for (int k = kBegin; k < kEnd; ++k) {
      const I weights = source.template group<0>(k, v);
      for (int t = 0; t < T; ++t) {
        sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], weights, broadcast4(rows[t] + values + 4 * k));
      }
    }
  }

  /// `times` the sum of an offset's two lanes (int8_row.h), where a dword's sum starts.
  static I offset(const std::byte* lanes, int16_t times) {
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), broadcast4(lanes), _mm512_set1_epi16(times));
  }

  template <Int8Type kType, int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    static_assert(R == 1);
    if constexpr (kType == Int8Type::kQ6_K) {
      // |sum of (q - 32) y over 16 columns| * 128 is below 2^23.
      I sums[T][1];
      for (int t = 0; t < T; ++t) sums[t][0] = offset(rows[t] + at.offsets32, 1);
      add_products<0, 4, T>(source, v, rows, at.values, sums);
      for (int t = 0; t < T; ++t) {
        dots[t][0] = _mm512_mullo_epi32(sums[t][0], source.factor(0, v));
        sums[t][0] = offset(rows[t] + at.offsets32 + 4, 1);
      }
      add_products<4, 8, T>(source, v, rows, at.values, sums);
      for (int t = 0; t < T; ++t) {
        dots[t][0] = _mm512_add_epi32(dots[t][0], _mm512_mullo_epi32(sums[t][0], source.factor(1, v)));
      }
    } else {
      for (int t = 0; t < T; ++t) {
        dots[t][0] = kType == Int8Type::kQ4_0   ? offset(rows[t] + at.offsets8, 1)
                     : kType == Int8Type::kQ8_0 ? offset(rows[t] + at.offsets8, 16)
                                                : _mm512_setzero_si512();
      }
      add_products<0, 8, T>(source, v, rows, at.values, dots);
    }
  }
};

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const auto product = uses_int8(type) ? Int8Products<Int8Vector>::matmul : FloatProducts<FloatVector>::matmul;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kAvx512Matmul = {"avx512", quantize_row, matmul_rows};

}  // namespace cairn::cpu
#endif
