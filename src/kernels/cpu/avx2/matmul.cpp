#include "kernels/cpu/matmul.h"

#if defined(__x86_64__)
#include "kernels/cpu/avx2/vector.h"
#include "kernels/cpu/matmul_float_body.h"
#include "kernels/cpu/matmul_int8_body.h"
#include "kernels/cpu/quantize_body.h"

namespace cairn::cpu {
namespace {

struct FloatVector : Vector {
  // 4 rows x 3 tokens of accumulators, 3 activations and a weight are the 16 registers.
  static constexpr int kTokens = 3;
  using Vector::load;
  static F load(const Bf16* from) {
    const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16));
  }
};

// Without VNNI: unsigned times signed bytes, pairs added to int16 with saturation (vpmaddubsw), which each block_sums
// below shows never to happen.
struct Int8Vector {
  using I = __m256i;
  using F = __m256;
  static constexpr int kRows = 8;
  // 4 integer sums, 4 float sums, a weight and what the products pass through.
  static constexpr int kTokens = 4;

  struct Quad {
    I v[4];
  };

  /// 16 bytes at `offset` of each row: v[k] holds bytes 4k..4k+3 of row 0, of row 1, ...
  static Quad transpose16(RowPointers rows, int64_t offset) {
    I in[4];
    for (int r = 0; r < 4; ++r) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + offset));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r + 4] + offset));
      in[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    const I a = _mm256_unpacklo_epi32(in[0], in[1]);
    const I b = _mm256_unpackhi_epi32(in[0], in[1]);
    const I c = _mm256_unpacklo_epi32(in[2], in[3]);
    const I d = _mm256_unpackhi_epi32(in[2], in[3]);
    return {{_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
             _mm256_unpackhi_epi64(b, d)}};
  }

  /// The half at `offset` of each row.
  static F load_halves(RowPointers rows, int64_t offset) {
    int16_t halves[kRows];
    for (int r = 0; r < kRows; ++r) std::memcpy(&halves[r], rows[r] + offset, sizeof(int16_t));
    return _mm256_cvtph_ps(
        _mm_setr_epi16(halves[0], halves[1], halves[2], halves[3], halves[4], halves[5], halves[6], halves[7]));
  }

  static I load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
  static F load_floats(const float* from) { return _mm256_load_ps(from); }
  static void store(void* to, I value) { _mm256_store_si256(static_cast<__m256i*>(to), value); }
  static void store(float* to, F value) { _mm256_store_ps(to, value); }

  static I masked(I v, int8_t mask) { return _mm256_and_si256(v, _mm256_set1_epi8(mask)); }
  static I either(I a, I b) { return _mm256_or_si256(a, b); }
  /// Within 16 bits: mask what comes from the neighbour.
  template <int kBits>
  static I shift_right(I v) {
    return _mm256_srli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_left(I v) {
    return _mm256_slli_epi16(v, kBits);
  }
  template <int kBits>
  static I shift_dwords_right(I v) {
    return _mm256_srli_epi32(v, kBits);
  }
  static I low_bytes(I v) { return _mm256_and_si256(v, _mm256_set1_epi32(255)); }
  /// The halves in the low 16 bits of the dwords.
  static F low_halves(I v) {
    const I packed = _mm256_packus_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), _mm256_setzero_si256());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8)));
  }
  static I q8_0_values(I v) { return v; }
  /// Byte `i` of the dwords, with its sign, as both int16 lanes: ready for vpmaddwd.
  static I factor(I dwords, int i) {
    const I high_bytes =
        _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0, 0x04000400, 0x08000800, 0x0c000c00);
    const I order = _mm256_add_epi8(high_bytes, _mm256_set1_epi8(static_cast<char>(i)));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(dwords, order), 8);
  }

  static F zero() { return _mm256_setzero_ps(); }
  static F multiply(F a, F b) { return _mm256_mul_ps(a, b); }
  static F multiply_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F multiply_subtract(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  static I broadcast4(const std::byte* from) {
    int32_t value;
    std::memcpy(&value, from, sizeof(value));
    return _mm256_set1_epi32(value);
  }
  static F broadcast_float(const std::byte* from) { return _mm256_castsi256_ps(broadcast4(from)); }

  /// Fixes the order of additions: regrouped by the compiler, the sums of a block need more registers than there are.
  static void keep_order(I& sum) { asm("" : "+x"(sum)); }

  /// sums[t] += w[k] * y[t] in int16, for kCount groups of 4 columns.
  template <int T, int kCount>
  static void add_products(const uint8_t (*w)[kRows][4], const std::byte* const* rows, int64_t values, I* sums) {
#pragma GCC unroll 8
    for (int k = 0; k < kCount; ++k) {
      const I weights = load(w[k]);
      for (int t = 0; t < T; ++t) {
        const I y = broadcast4(rows[t] + values + 4 * k);
        sums[t] = _mm256_add_epi16(sums[t], _mm256_maddubs_epi16(weights, y));
        keep_order(sums[t]);
      }
    }
  }

  template <Int8Type kType, int T>
  static void block_sums(const PanelBlock<Int8Vector>& block, const std::byte* const* rows, const Places& at, I* dots) {
    if constexpr (kType == Int8Type::kQ8_0) {
      signed_sums<T>(block, rows, at, dots);
    } else if constexpr (kType == Int8Type::kQ6_K) {
      six_bit_sums<T>(block, rows, at, dots);
    } else {
      // Below 16: the 16 columns of a lane reach 15 * 127 * 16 = 30480, so the block needs no int32. Q4_0's sum is of
      // (q - 8) y; what wraps on the way there wraps back.
      for (int t = 0; t < T; ++t) {
        dots[t] = kType == Int8Type::kQ4_0 ? broadcast4(rows[t] + at.offsets8) : _mm256_setzero_si256();
      }
      add_products<T, 8>(block.values, rows, at.values, dots);
      for (int t = 0; t < T; ++t) dots[t] = _mm256_madd_epi16(dots[t], _mm256_set1_epi16(1));
    }
  }

  /// Below 64: a pair of products reaches 16002, and the sum of (q - 32) y over the 8 columns of a lane in 16 at most
  /// 32 * 127 * 8 = 32512. It too may wrap on the way.
  template <int T>
  static void six_bit_sums(const PanelBlock<Int8Vector>& block, const std::byte* const* rows, const Places& at,
                           I* dots) {
    for (int t = 0; t < T; ++t) dots[t] = _mm256_setzero_si256();
    for (int half = 0; half < 2; ++half) {
      I sums[T];
      for (int t = 0; t < T; ++t) sums[t] = broadcast4(rows[t] + at.offsets32 + 4 * half);
      add_products<T, 4>(block.values + 4 * half, rows, at.values + 16 * half, sums);
      const I factors = load(block.factors[half]);
      for (int t = 0; t < T; ++t) dots[t] = _mm256_add_epi32(dots[t], _mm256_madd_epi16(sums[t], factors));
    }
  }

  /// Signed: |w| <= 128 times y with w's sign; a pair of products reaches 128 * 127 * 2 = 32512.
  template <int T>
  static void signed_sums(const PanelBlock<Int8Vector>& block, const std::byte* const* rows, const Places& at,
                          I* dots) {
    for (int t = 0; t < T; ++t) dots[t] = _mm256_setzero_si256();
    const I ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      const I w = load(block.values[k]);
      const I magnitude = _mm256_abs_epi8(w);
      for (int t = 0; t < T; ++t) {
        const I y = _mm256_sign_epi8(broadcast4(rows[t] + at.values + 4 * k), w);
        dots[t] = _mm256_add_epi32(dots[t], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, y), ones));
        keep_order(dots[t]);
      }
    }
  }
};

void matmul_rows(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const auto product = uses_int8(type) ? Int8Products<Int8Vector>::matmul : FloatProducts<FloatVector>::matmul;
  product(type, weights, cols, row_begin, row_end, inputs, tokens, outputs);
}

}  // namespace

constinit const MatmulKernels kAvx2Matmul = {"avx2", quantize_row, matmul_rows};

}  // namespace cairn::cpu
#endif
