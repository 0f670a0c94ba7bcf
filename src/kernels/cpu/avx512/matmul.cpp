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
  static constexpr int kRows = 16;
  // 8 integer and 8 float sums leave the scheduler half of the registers; 12 were slower on Zen 4, 16 spill.
  static constexpr int kTokens = 8;

  struct Quad {
    I v[4];
  };

  /// 16 bytes at `offset` of each row: v[k] holds bytes 4k..4k+3 of row 0, of row 1, ...
  static Quad transpose16(RowPointers rows, int64_t offset) {
    I in[4];
    for (int r = 0; r < 4; ++r) {
      const auto piece = [&](int row) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + offset)); };
      const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(r)), piece(r + 4), 1);
      const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(r + 8)), piece(r + 12), 1);
      in[r] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    const I a = _mm512_unpacklo_epi32(in[0], in[1]);
    const I b = _mm512_unpackhi_epi32(in[0], in[1]);
    const I c = _mm512_unpacklo_epi32(in[2], in[3]);
    const I d = _mm512_unpackhi_epi32(in[2], in[3]);
    return {{_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d),
             _mm512_unpackhi_epi64(b, d)}};
  }

  /// The half at `offset` of each row.
  static F load_halves(RowPointers rows, int64_t offset) {
    int16_t h[kRows];
    for (int r = 0; r < kRows; ++r) std::memcpy(&h[r], rows[r] + offset, sizeof(int16_t));
    return _mm512_cvtph_ps(_mm256_setr_epi16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11],
                                             h[12], h[13], h[14], h[15]));
  }

  static I load(const void* from) { return _mm512_load_si512(from); }
  static F load_floats(const float* from) { return _mm512_loadu_ps(from); }
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
  static I low_bytes(I v) { return _mm512_and_si512(v, _mm512_set1_epi32(255)); }
  /// The halves in the low 16 bits of the dwords.
  static F low_halves(I v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
  /// Unsigned, 128 more.
  static I q8_0_values(I v) { return _mm512_xor_si512(v, _mm512_set1_epi8(-128)); }
  /// Byte `i` of the dwords, with its sign.
  static I factor(I dwords, int i) {
    const __m128i shift = _mm_cvtsi32_si128(24 - 8 * i);
    return _mm512_srai_epi32(_mm512_sll_epi32(dwords, shift), 24);
  }

  static F zero() { return _mm512_setzero_ps(); }
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

  /// sums[t] += w[k] * y[t], for kCount groups of 4 columns.
  template <int T, int kCount>
  static void add_products(const uint8_t (*w)[kRows][4], const std::byte* const* rows, int64_t values, I* sums) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) {
      const I weights = load(w[k]);
      for (int t = 0; t < T; ++t) {
        sums[t] = _mm512_dpbusd_epi32(sums[t], weights, broadcast4(rows[t] + values + 4 * k));
      }
    }
  }

  /// `times` the sum of an offset's two lanes (int8_row.h), where a dword's sum starts.
  static I offset(const std::byte* lanes, int16_t times) {
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), broadcast4(lanes), _mm512_set1_epi16(times));
  }

  template <Int8Type kType, int T>
  static void block_sums(const PanelBlock<Int8Vector>& block, const std::byte* const* rows, const Places& at, I* dots) {
    if constexpr (kType == Int8Type::kQ6_K) {
      // |sum of (q - 32) y over 16 columns| * 128 is below 2^23.
      for (int half = 0; half < 2; ++half) {
        I sums[T];
        for (int t = 0; t < T; ++t) sums[t] = offset(rows[t] + at.offsets32 + 4 * half, 1);
        add_products<T, 4>(block.values + 4 * half, rows, at.values + 16 * half, sums);
        const I factors = load(block.factors[half]);
        for (int t = 0; t < T; ++t) {
          const I product = _mm512_mullo_epi32(sums[t], factors);
          dots[t] = half == 0 ? product : _mm512_add_epi32(dots[t], product);
        }
      }
    } else {
      for (int t = 0; t < T; ++t) {
        dots[t] = kType == Int8Type::kQ4_0   ? offset(rows[t] + at.offsets8, 1)
                  : kType == Int8Type::kQ8_0 ? offset(rows[t] + at.offsets8, 16)
                                             : _mm512_setzero_si512();
      }
      add_products<T, 8>(block.values, rows, at.values, dots);
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
