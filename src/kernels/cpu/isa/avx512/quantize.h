/// Quantises float rows to int8 rows (int8_row.h) with AVX-512: the blocks' scales and sums are lanes of one vector.
#pragma once

#include "kernels/cpu/isa/avx512/vector.h"  // the intrinsics, or their emulation

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul/int8_row.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/quantize_body.h"

namespace cairn::kernels::cpu {
namespace {

/// The bits of the largest magnitude of 32 floats.
inline int32_t maximum_bits(const float* x) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i first = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x)), magnitude);
  const __m512i second = _mm512_and_si512(_mm512_castps_si512(_mm512_loadu_ps(x + 16)), magnitude);
  const __m512i lanes = _mm512_max_epi32(first, second);
  return maximum_lane(_mm256_max_epi32(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1)));
}

/// For blocks [b, b + 8): pairs of int16, the sums of the even and of the odd lane's columns, for each half of each
/// block.
inline __m512i half_lane_sums(const int8_t* values) {
  const __m512i other_qword =
      _mm512_broadcast_i32x4(_mm_setr_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  const __m512i other_dword =
      _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  const auto two_blocks = [&](int i) {
    // Adds pairs of columns, then the dwords of 16 columns: each of the four dwords of a half then has its sums.
    const __m512i lanes = _mm512_maddubs_epi16(_mm512_set1_epi8(1), _mm512_loadu_si512(values + 64 * i));
    const __m512i twos = _mm512_add_epi16(lanes, _mm512_shuffle_epi8(lanes, other_qword));
    return _mm512_add_epi16(twos, _mm512_shuffle_epi8(twos, other_dword));
  };
  const __m512i low = _mm512_mask_blend_epi32(0xaaaa, two_blocks(0), two_blocks(1));
  const __m512i high = _mm512_mask_blend_epi32(0xaaaa, two_blocks(2), two_blocks(3));
  const __m512i mixed = _mm512_mask_blend_epi32(0xcccc, low, high);
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), mixed);
}

/// Stores offsets and scaled sums of blocks [b, b + 16), whose values are stored already.
inline void store_sums_of_16(__m512 scales, int64_t b, const Int8Row& row) {
  const __m512i zeros = _mm512_setzero_si512();
  const __m512i first = half_lane_sums(row.values + 32 * b);
  const __m512i second = half_lane_sums(row.values + 32 * (b + 8));
  _mm512_storeu_si512(row.offsets32 + 4 * b, _mm512_sub_epi16(zeros, _mm512_slli_epi16(first, 5)));
  _mm512_storeu_si512(row.offsets32 + 4 * (b + 8), _mm512_sub_epi16(zeros, _mm512_slli_epi16(second, 5)));
  const __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
  const __m512i blocks =
      _mm512_add_epi16(_mm512_permutex2var_epi32(first, evens, second), _mm512_permutex2var_epi32(first, odds, second));
  _mm512_storeu_si512(row.offsets8 + 2 * b, _mm512_sub_epi16(zeros, _mm512_slli_epi16(blocks, 3)));
  const __m512 sums = _mm512_cvtepi32_ps(_mm512_dpwssd_epi32(zeros, blocks, _mm512_set1_epi16(1)));
  _mm512_storeu_ps(row.scaled_sums + b, _mm512_mul_ps(scales, sums));
}

/// Quantises blocks [b, b + 16) as quantize_block does; `x` are the floats of the first block.
inline void quantize_16_blocks(const float* x, int64_t b, const Int8Row& row) {
  alignas(64) int32_t largest[16];
  for (int i = 0; i < 16; ++i) largest[i] = maximum_bits(x + 32 * i);
  const __m512i bits = _mm512_load_si512(largest);
  const __mmask16 finite = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(0x7f800000), bits);
  const __m512 maxima = _mm512_castsi512_ps(bits);
  const __mmask16 present = finite & _mm512_cmp_ps_mask(maxima, _mm512_set1_ps(kInt8MaximumMin), _CMP_GE_OQ);
  const __m512 ones = _mm512_set1_ps(1);
  const __m512 scales = _mm512_mask_div_ps(ones, present, maxima, _mm512_set1_ps(127));  // int8_scale
  alignas(64) float inverses[16];
  _mm512_store_ps(inverses, _mm512_maskz_div_ps(present, ones, scales));
  for (int i = 0; i < 16; ++i) {
    const bool all_finite = (finite >> i & 1) != 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row.values + 32 * (b + i)),
                        quantized_bytes(x + 32 * i, inverses[i], all_finite));
  }
  const __m512 stored = _mm512_mask_mov_ps(_mm512_set1_ps(__builtin_nanf("")), finite, scales);
  _mm512_storeu_ps(row.scales + b, stored);
  store_sums_of_16(stored, b, row);
}

inline void quantize_row_of_16s(const float* x, int64_t cols, std::byte* out) {
  const Int8Row row = int8_row(out, cols);
  const int64_t blocks = cols / 32;
  int64_t b = 0;
  for (; b + 16 <= blocks; b += 16) quantize_16_blocks(x + 32 * b, b, row);
  for (; b < blocks; ++b) quantize_block(x + 32 * b, b, row);
  const auto used = static_cast<size_t>(int8_row_bytes_used(cols));
  std::memset(out + used, 0, int8_row_bytes(cols) - used);
}

}  // namespace
}  // namespace cairn::kernels::cpu
