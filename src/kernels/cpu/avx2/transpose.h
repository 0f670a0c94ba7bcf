/// Transposes 8 x 8 elements, float32 or binary16, to float32.
#pragma once

#include <cstdint>

#include "kernels/cpu/intrinsics.h"

namespace cairn::cpu {
namespace {

inline __m256 load_8(const float* from) { return _mm256_loadu_ps(from); }
inline __m256 load_8(const uint16_t* half) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(half)));
}

// in [8 rows, 8 columns] -> out [8 columns, 8 rows]; strides in elements.
template <class T>
inline void transpose_8x8(const T* in, int64_t in_stride, float* out, int64_t out_stride) {
  // Within each 128-bit half: pairs of rows interleaved, then pairs of pairs; at the end halves are exchanged.
  __m256 pairs[8];
  for (int r = 0; r < 8; r += 2) {
    const __m256 even = load_8(in + r * in_stride);
    const __m256 odd = load_8(in + (r + 1) * in_stride);
    pairs[r] = _mm256_unpacklo_ps(even, odd);
    pairs[r + 1] = _mm256_unpackhi_ps(even, odd);
  }
  __m256 quads[8];  // quads[c], quads[c + 4]: column c and c + 4 of rows 0-3, of rows 4-7
  for (int half = 0; half < 8; half += 4) {
    quads[half] = _mm256_shuffle_ps(pairs[half], pairs[half + 2], 0x44);
    quads[half + 1] = _mm256_shuffle_ps(pairs[half], pairs[half + 2], 0xee);
    quads[half + 2] = _mm256_shuffle_ps(pairs[half + 1], pairs[half + 3], 0x44);
    quads[half + 3] = _mm256_shuffle_ps(pairs[half + 1], pairs[half + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    _mm256_storeu_ps(out + c * out_stride, _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x20));
    _mm256_storeu_ps(out + (c + 4) * out_stride, _mm256_permute2f128_ps(quads[c], quads[c + 4], 0x31));
  }
}

}  // namespace
}  // namespace cairn::cpu
