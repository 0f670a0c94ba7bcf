// Products with float32 activations. A pair's sum runs in 8 lanes, lane l over columns l, l + 8, ...; the lanes are added
// at the end in a fixed tree.
//
// Four weight rows at a time: a chunk of them is converted to float32 once (F32 is read in place) and meets all tokens of
// a group, three at a time: 4 x 3 accumulators, 3 activations and a weight fill the 16 registers.
#if defined(__x86_64__)
#include <cstring>

#include "kernels/cpu/avx2/matmul_parts.h"
#include "kernels/cpu/intrinsics.h"

namespace cairn::cpu::avx2 {
namespace {

constexpr int kRows = 4;
constexpr int kTokens = 3;
// A multiple of every type's block. 4 rows x 512 x 4 bytes = 8 KiB: a quarter of L1, next to three rows of activations.
constexpr int64_t kChunkCols = 512;
// Accumulators of a group: 48 x 4 x 32 bytes = 6 KiB.
constexpr int32_t kGroupTokens = 48;

using Accumulators = float[kRows][8];

/// Continues the sums of 4 rows and T tokens over n columns, a multiple of 8.
template <int T>
void tile(const float* const* w, const float* const* x, int64_t n, Accumulators* sums) {
  __m256 acc[T][kRows];
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < kRows; ++r) acc[t][r] = _mm256_loadu_ps(sums[t][r]);
  }
  for (int64_t i = 0; i < n; i += 8) {
    __m256 xs[T];
    for (int t = 0; t < T; ++t) xs[t] = _mm256_loadu_ps(x[t] + i);
    for (int r = 0; r < kRows; ++r) {
      const __m256 ws = _mm256_loadu_ps(w[r] + i);
      for (int t = 0; t < T; ++t) acc[t][r] = _mm256_fmadd_ps(ws, xs[t], acc[t][r]);
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < kRows; ++r) _mm256_storeu_ps(sums[t][r], acc[t][r]);
  }
}

/// The same for any n: the last n % 8 columns are completed with zeros.
template <int T>
void tile_any(const float* const* w, const float* const* x, int64_t n, Accumulators* sums) {
  const int64_t whole = n / 8 * 8;
  tile<T>(w, x, whole, sums);
  if (whole == n) return;
  float w_tail[kRows][8] = {};
  float x_tail[T][8] = {};
  const float* w_rows[kRows];
  const float* x_rows[T];
  const auto bytes = static_cast<size_t>(n - whole) * sizeof(float);
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(w_tail[r], w[r] + whole, bytes);
    w_rows[r] = w_tail[r];
  }
  for (int t = 0; t < T; ++t) {
    std::memcpy(x_tail[t], x[t] + whole, bytes);
    x_rows[t] = x_tail[t];
  }
  tile<T>(w_rows, x_rows, 8, sums);
}

float sum_lanes(const float* lanes) {
  const __m128 four = _mm_add_ps(_mm_loadu_ps(lanes), _mm_loadu_ps(lanes + 4));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// n elements of a row to float32.
void decode(TensorType type, const std::byte* row, int64_t n, float* out) {
  int64_t i = 0;
  if (type == TensorType::kF16) {
    for (; i + 8 <= n; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i));
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
  } else if (type == TensorType::kBF16) {
    for (; i + 8 <= n; i += 8) {
      const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i));
      const __m256i words = _mm256_slli_epi32(_mm256_cvtepu16_epi32(upper), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), words);
    }
  }
  // Here i is 0 for types of larger blocks.
  if (i < n) decode_weights(type, row + (i > 0 ? 2 * i : 0), n - i, out + i);
}

/// Four rows against a group of tokens.
void multiply_group(TensorType type, const std::byte* const* rows, int64_t cols, const std::byte* const* inputs,
                    int32_t tokens, Accumulators* sums) {
  alignas(32) float decoded[kRows][kChunkCols];
  const float* w[kRows];
  for (int64_t begin = 0; begin < cols; begin += kChunkCols) {
    const int64_t n = cols - begin < kChunkCols ? cols - begin : kChunkCols;
    const int64_t offset = weight_row_bytes(type, begin);
    for (int r = 0; r < kRows; ++r) {
      // A file's tensor may start anywhere; only whole floats may be read in place.
      const bool in_place = type == TensorType::kF32 && reinterpret_cast<uintptr_t>(rows[r]) % sizeof(float) == 0;
      w[r] = in_place ? reinterpret_cast<const float*>(rows[r] + offset) : decoded[r];
      if (!in_place) decode(type, rows[r] + offset, n, decoded[r]);
    }
    for (int32_t t = 0; t < tokens; t += kTokens) {
      const int32_t count = tokens - t < kTokens ? tokens - t : kTokens;
      const float* x[kTokens];
      for (int32_t i = 0; i < count; ++i) x[i] = reinterpret_cast<const float*>(inputs[t + i]) + begin;
      if (count == 3) {
        tile_any<3>(w, x, n, sums + t);
      } else if (count == 2) {
        tile_any<2>(w, x, n, sums + t);
      } else {
        tile_any<1>(w, x, n, sums + t);
      }
    }
  }
}

}  // namespace

void matmul_float(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                  const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const int64_t stride = weight_row_bytes(type, cols);
  for (int64_t r = row_begin; r < row_end; r += kRows) {
    // Beyond the end the last row is computed again and thrown away.
    const int64_t rows_here = row_end - r < kRows ? row_end - r : kRows;
    const std::byte* rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = weights + (r + (i < rows_here ? i : rows_here - 1)) * stride;
    for (int32_t group = 0; group < tokens; group += kGroupTokens) {
      const int32_t n = tokens - group < kGroupTokens ? tokens - group : kGroupTokens;
      Accumulators sums[kGroupTokens];
      std::memset(sums, 0, static_cast<size_t>(n) * sizeof(Accumulators));
      multiply_group(type, rows, cols, inputs + group, n, sums);
      for (int32_t t = 0; t < n; ++t) {
        for (int64_t i = 0; i < rows_here; ++i) outputs[group + t][r + i] = sum_lanes(sums[t][i]);
      }
    }
  }
}

}  // namespace cairn::cpu::avx2
#endif
