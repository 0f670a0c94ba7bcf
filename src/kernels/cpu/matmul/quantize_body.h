/// Quantises float rows to int8 rows (int8_row.h) with AVX2, and the rest of a row for AVX-512 (avx512/quantize.h).
#pragma once

#if defined(__AVX2__)
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/intrinsics.h"
#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"

namespace cairn::kernels::cpu {
namespace {

inline int32_t maximum_lane(__m256i v) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

/// Stores the scale and the offsets of 32 int8 values.
inline void store_block_sums(__m256i bytes, float scale, int64_t b, const Int8Row& row) {
  // Adds pairs of columns, then the dwords of each half of 16 columns: (even lane, odd lane) of int16.
  __m256i lanes = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  lanes = _mm256_add_epi16(lanes, _mm256_shuffle_epi32(lanes, 0x4e));
  lanes = _mm256_add_epi16(lanes, _mm256_shuffle_epi32(lanes, 0xb1));
  const __m128i first = _mm256_castsi256_si128(lanes);
  const __m128i second = _mm256_extracti128_si256(lanes, 1);
  const __m128i zeros = _mm_setzero_si128();
  const __m128i block = _mm_add_epi16(first, second);
  const int32_t offsets8 = _mm_cvtsi128_si32(_mm_sub_epi16(zeros, _mm_slli_epi16(block, 3)));
  const __m128i halves = _mm_unpacklo_epi32(first, second);
  const int64_t offsets32 = _mm_cvtsi128_si64(_mm_sub_epi16(zeros, _mm_slli_epi16(halves, 5)));
  const int32_t sum = _mm_cvtsi128_si32(_mm_madd_epi16(block, _mm_set1_epi16(1)));
  row.scales[b] = scale;
  row.scaled_sums[b] = scale * static_cast<float>(sum);
  std::memcpy(row.offsets8 + 2 * b, &offsets8, sizeof(offsets8));
  std::memcpy(row.offsets32 + 4 * b, &offsets32, sizeof(offsets32));
}

/// 32 values times the inverse of their scale, as bytes; zeros if not all are finite.
inline __m256i quantized_bytes(const float* x, float inverse, bool finite) {
  if (!finite) return _mm256_setzero_si256();
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), _mm256_set1_ps(inverse)));
  }
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

inline void quantize_block(const float* x, int64_t b, const Int8Row& row) {
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    // Magnitudes compare as integers: infinity is larger than finite numbers, and NaN larger than both.
    const __m256i bits =
        _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + 8 * i)), _mm256_set1_epi32(0x7fffffff));
    largest = _mm256_max_epi32(largest, bits);
  }
  const int32_t maximum_bits = maximum_lane(largest);
  const bool finite = maximum_bits < 0x7f800000;
  const float maximum = finite ? __builtin_bit_cast(float, maximum_bits) : 0.0f;
  const bool zero = maximum < kInt8MaximumMin;
  const float scale = zero ? 1.0f : int8_scale(maximum);
  const __m256i bytes = quantized_bytes(x, zero ? 0.0f : 1.0f / scale, finite);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(row.values + 32 * b), bytes);
  store_block_sums(bytes, finite ? scale : __builtin_nanf(""), b, row);
}

inline void quantize_row(const float* x, int64_t cols, std::byte* out) {
  const Int8Row row = int8_row(out, cols);
  for (int64_t b = 0; b < cols / 32; ++b) quantize_block(x + 32 * b, b, row);
  const auto used = static_cast<size_t>(int8_row_bytes_used(cols));
  std::memset(out + used, 0, int8_row_bytes(cols) - used);
}

}  // namespace
}  // namespace cairn::kernels::cpu
#endif
