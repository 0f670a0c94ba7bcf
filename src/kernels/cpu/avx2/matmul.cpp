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
  static constexpr int kLanes = 8;
  static constexpr int kTokens = 4;
  // 8 integer sums and what the products pass through are what the 16 registers hold. Q8_0 and Q6_K have two sums.
  /// Whether many tokens want the type's blocks unpacked first (UnpackedBlocks).
  static constexpr bool unpacks(Int8Type type) { return type == Int8Type::kQ8_0 || type == Int8Type::kQ6_K; }
  static constexpr int vectors_at_once(Int8Type type) {
    return type == Int8Type::kQ8_0 || type == Int8Type::kQ6_K ? 1 : 2;
  }

  static I load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }
  static F load_floats(const float* from) { return _mm256_load_ps(from); }
  static F load_halves(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  }
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
  /// The halves in the low 16 bits of the dwords.
  static F low_halves(I v) {
    const I packed = _mm256_packus_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0xffff)), _mm256_setzero_si256());
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0xd8)));
  }
  /// Q8_0's bytes (128 more than the values) are 16 times plane 1 plus plane 0: four bits do not saturate.
  static constexpr int kQ8Planes = 2;
  template <int kPlane>
  static I q8_plane(I v) {
    return masked(kPlane == 0 ? v : _mm256_srli_epi16(v, 4), 15);
  }
  /// Byte `i` of the dwords.
  static I byte(I dwords, int i) {
    const I order = _mm256_setr_epi32(0x80808000, 0x80808004, 0x80808008, 0x8080800c, 0x80808000, 0x80808004,
                                      0x80808008, 0x8080800c);
    return _mm256_shuffle_epi8(dwords, _mm256_add_epi8(order, _mm256_set1_epi32(i)));
  }
  /// The same with its sign, as both int16 lanes: ready for vpmaddwd.
  static I factor(I dwords, int i) {
    const I high_bytes =
        _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0, 0x04000400, 0x08000800, 0x0c000c00);
    const I order = _mm256_add_epi8(high_bytes, _mm256_set1_epi8(static_cast<char>(i)));
    return _mm256_srai_epi16(_mm256_shuffle_epi8(dwords, order), 8);
  }

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

  /// sums[t][r] += group<kPlane>(k, v + r) * y[t] in int16, for k in [kBegin, kEnd). Groups four apart take turns: they
  /// are often nibbles of the same bytes.
  template <int kPlane, int kBegin, int kEnd, int T, int R, class Source>
  [[gnu::always_inline]] static void add_products(const Source& source, int v, const std::byte* const* rows,
                                                  int64_t values, I (*sums)[R]) {
    constexpr int kCount = kEnd - kBegin;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int k = kBegin + (kCount == 8 ? i / 2 + i % 2 * 4 : i);
      I weights[R];
      for (int r = 0; r < R; ++r) weights[r] = source.template group<kPlane>(k, v + r);
      for (int t = 0; t < T; ++t) {
        const I y = broadcast4(rows[t] + values + 4 * k);
        for (int r = 0; r < R; ++r) {
          sums[t][r] = _mm256_add_epi16(sums[t][r], _mm256_maddubs_epi16(weights[r], y));
          keep_order(sums[t][r]);
        }
      }
    }
  }

  template <Int8Type kType, int T, int R, class Source>
  [[gnu::always_inline]] static void block_sums(const Source& source, int v, const std::byte* const* rows,
                                                const Places& at, I (*dots)[R]) {
    if constexpr (kType == Int8Type::kQ8_0) {
      eight_bit_sums<T, R>(source, v, rows, at, dots);
    } else if constexpr (kType == Int8Type::kQ6_K) {
      six_bit_sums<T, R>(source, v, rows, at, dots);
    } else {
      // Below 16: the 16 columns of a lane reach 15 * 127 * 16 = 30480, so the block needs no int32. Q4_0's sum is of
      // (q - 8) y; what wraps on the way there wraps back.
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) {
          dots[t][r] = kType == Int8Type::kQ4_0 ? broadcast4(rows[t] + at.offsets8) : _mm256_setzero_si256();
        }
      }
      add_products<0, 0, 8, T, R>(source, v, rows, at.values, dots);
      for (int t = 0; t < T; ++t) {
        for (int r = 0; r < R; ++r) dots[t][r] = _mm256_madd_epi16(dots[t][r], _mm256_set1_epi16(1));
      }
    }
  }

  /// Below 64: a pair of products reaches 16002, and the sum of (q - 32) y over the 8 columns of a lane in 16 at most
  /// 32 * 127 * 8 = 32512. It too may wrap on the way.
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void six_bit_sums(const Source& source, int v, const std::byte* const* rows,
                                                  const Places& at, I (*dots)[R]) {
    I sums[T][R];
    const auto scaled = [&](int half, int t, int r) {
      return _mm256_madd_epi16(sums[t][r], source.factor(half, v + r));
    };
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) sums[t][r] = broadcast4(rows[t] + at.offsets32);
    }
    add_products<0, 0, 4, T, R>(source, v, rows, at.values, sums);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        dots[t][r] = scaled(0, t, r);
        sums[t][r] = broadcast4(rows[t] + at.offsets32 + 4);
      }
    }
    add_products<0, 4, 8, T, R>(source, v, rows, at.values, sums);
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) dots[t][r] = _mm256_add_epi32(dots[t][r], scaled(1, t, r));
    }
  }

  /// 16 * sum((high - 8) y) + sum(low y), each as above.
  template <int T, int R, class Source>
  [[gnu::always_inline]] static void eight_bit_sums(const Source& source, int v, const std::byte* const* rows,
                                                    const Places& at, I (*dots)[R]) {
    I high[T][R];
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        high[t][r] = broadcast4(rows[t] + at.offsets8);
        dots[t][r] = _mm256_setzero_si256();
      }
    }
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      for (int r = 0; r < R; ++r) {
        const I low_weights = source.template group<0>(k, v + r), high_weights = source.template group<1>(k, v + r);
        for (int t = 0; t < T; ++t) {
          const I y = broadcast4(rows[t] + at.values + 4 * k);
          dots[t][r] = _mm256_add_epi16(dots[t][r], _mm256_maddubs_epi16(low_weights, y));
          keep_order(dots[t][r]);
          high[t][r] = _mm256_add_epi16(high[t][r], _mm256_maddubs_epi16(high_weights, y));
          keep_order(high[t][r]);
        }
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int r = 0; r < R; ++r) {
        dots[t][r] = _mm256_add_epi32(_mm256_madd_epi16(dots[t][r], _mm256_set1_epi16(1)),
                                      _mm256_madd_epi16(high[t][r], _mm256_set1_epi16(16)));
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
