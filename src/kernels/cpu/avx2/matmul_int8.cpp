// Products with int8 activations, by int16 multiply-adds of unsigned weights and signed activations (vpmaddubsw).
//
// Eight weight rows are one vector: a chunk of columns of them is transposed to [column / 4][row][4 columns], so that an
// activation vector is 4 columns broadcast, a lane belongs to one row and nothing is ever summed across lanes. Per block
// of 32 columns the exact integer sum of each pair is converted to float and added to the pair's one accumulator, in
// order of blocks; it travels through `outputs` from chunk to chunk.
#if defined(__x86_64__)
#include <cstring>

#include "kernels/cpu/avx2/matmul_parts.h"
#include "kernels/cpu/int8_row.h"
#include "kernels/cpu/intrinsics.h"
#include "quant/blocks.h"

namespace cairn::cpu::avx2 {
namespace {

constexpr int kRows = 8;
// A multiple of the 8 blocks of a K format's super-block. Panel values of 1024 columns are 8 KiB, the scales 1 to 3: with
// 4 tokens' activations (4 KiB) half of L1.
constexpr int32_t kChunkBlocks = 32;

/// One chunk of eight rows. What a type does not need stays unset.
struct Panel {
  alignas(32) uint8_t values[kChunkBlocks][8][kRows][4];
  alignas(32) float scales[kChunkBlocks][kRows];
  alignas(32) float minima[kChunkBlocks][kRows];          // Q4_K: what to subtract per column
  alignas(32) int16_t factors[kChunkBlocks][2][kRows][2];  // Q6_K: scale per 16 columns, for both int16 lanes of a row
};

using RowPointers = const std::byte* const*;

/// Asks for the part of the next eight rows that lies as far into them as blocks [begin, end) of size `bytes` lie into
/// these: a processor's own prefetchers do not follow eight short streams. Reading beyond the matrix is only asked for.
inline void prefetch_next(RowPointers rows, int64_t stride, int64_t begin, int64_t end, size_t bytes) {
  const auto next = reinterpret_cast<uintptr_t>(rows[0]) + static_cast<uintptr_t>(kRows * stride);
  const auto span = kRows * static_cast<uintptr_t>(bytes);
  const uintptr_t stop = next + static_cast<uintptr_t>(end) * span;
  for (uintptr_t line = (next + static_cast<uintptr_t>(begin) * span + 63) / 64 * 64; line < stop; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
  }
}

// -- Weights to panels.

struct Quad {
  __m256i v[4];
};

/// 16 bytes at `offset` of each of 8 rows: v[k] holds bytes 4k..4k+3 of row 0, of row 1, ...
inline Quad transpose16(RowPointers rows, int64_t offset) {
  __m256i in[4];
  for (int r = 0; r < 4; ++r) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + offset));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r + 4] + offset));
    in[r] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
  const __m256i a = _mm256_unpacklo_epi32(in[0], in[1]);
  const __m256i b = _mm256_unpackhi_epi32(in[0], in[1]);
  const __m256i c = _mm256_unpacklo_epi32(in[2], in[3]);
  const __m256i d = _mm256_unpackhi_epi32(in[2], in[3]);
  return {{_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
           _mm256_unpackhi_epi64(b, d)}};
}

/// The half at `offset` of each row.
inline __m256 load_halves(RowPointers rows, int64_t offset) {
  uint16_t halves[kRows];
  for (int r = 0; r < kRows; ++r) std::memcpy(&halves[r], rows[r] + offset, sizeof(uint16_t));
  return _mm256_cvtph_ps(_mm_setr_epi16(
      static_cast<int16_t>(halves[0]), static_cast<int16_t>(halves[1]), static_cast<int16_t>(halves[2]),
      static_cast<int16_t>(halves[3]), static_cast<int16_t>(halves[4]), static_cast<int16_t>(halves[5]),
      static_cast<int16_t>(halves[6]), static_cast<int16_t>(halves[7])));
}

inline void store(void* to, __m256i value) { _mm256_store_si256(static_cast<__m256i*>(to), value); }

inline __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

struct Q8_0 {
  static void decode(RowPointers rows, int64_t stride, int64_t begin, int32_t blocks, Panel& out) {
    for (int32_t b = 0; b < blocks; ++b) {
      const int64_t at = (begin + b) * static_cast<int64_t>(sizeof(BlockQ8_0));
      prefetch_next(rows, stride, (begin + b), (begin + b) + 1, sizeof(BlockQ8_0));
      _mm256_store_ps(out.scales[b], load_halves(rows, at));
      for (int half = 0; half < 2; ++half) {
        const Quad quad = transpose16(rows, at + 2 + 16 * half);
        for (int k = 0; k < 4; ++k) store(out.values[b][4 * half + k], quad.v[k]);
      }
    }
  }
};

struct Q4_0 {
  static void decode(RowPointers rows, int64_t stride, int64_t begin, int32_t blocks, Panel& out) {
    for (int32_t b = 0; b < blocks; ++b) {
      const int64_t at = (begin + b) * static_cast<int64_t>(sizeof(BlockQ4_0));
      prefetch_next(rows, stride, (begin + b), (begin + b) + 1, sizeof(BlockQ4_0));
      _mm256_store_ps(out.scales[b], load_halves(rows, at));
      const Quad quad = transpose16(rows, at + 2);
      for (int k = 0; k < 4; ++k) {
        store(out.values[b][k], low_nibbles(quad.v[k]));
        store(out.values[b][4 + k], high_nibbles(quad.v[k]));
      }
    }
  }
};

struct Q4_K {
  /// One super-block's scales and minima.
  static void decode_scales(RowPointers rows, int64_t at, int32_t b, Panel& out) {
    // The header is 16 bytes: d and dmin, then three times four bytes of packed scales (see k4_scale_min).
    const Quad head = transpose16(rows, at);
    const __m256i low16 = _mm256_set1_epi32(0xffff);
    const __m256i packed = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_and_si256(head.v[0], low16), _mm256_srli_epi32(head.v[0], 16)), 0xd8);
    const __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
    const __m256 dmin = _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1));
    const __m256i six = _mm256_set1_epi8(63);
    const __m256i top = _mm256_set1_epi8(48);
    const __m256i scales[2] = {
        _mm256_and_si256(head.v[1], six),
        _mm256_or_si256(low_nibbles(head.v[3]), _mm256_and_si256(_mm256_srli_epi16(head.v[1], 2), top))};
    const __m256i minima[2] = {
        _mm256_and_si256(head.v[2], six),
        _mm256_or_si256(high_nibbles(head.v[3]), _mm256_and_si256(_mm256_srli_epi16(head.v[2], 2), top))};
    const __m256i byte = _mm256_set1_epi32(255);
    for (int group = 0; group < 8; ++group) {
      const __m128i shift = _mm_cvtsi32_si128(8 * (group % 4));
      const __m256i scale = _mm256_and_si256(_mm256_srl_epi32(scales[group / 4], shift), byte);
      const __m256i minimum = _mm256_and_si256(_mm256_srl_epi32(minima[group / 4], shift), byte);
      _mm256_store_ps(out.scales[b + group], _mm256_mul_ps(d, _mm256_cvtepi32_ps(scale)));
      _mm256_store_ps(out.minima[b + group], _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(minimum)));
    }
  }

  static void decode(RowPointers rows, int64_t stride, int64_t begin, int32_t blocks, Panel& out) {
    for (int32_t b = 0; b < blocks; b += 8) {
      const int64_t at = (begin + b) / 8 * static_cast<int64_t>(sizeof(BlockQ4_K));
      prefetch_next(rows, stride, (begin + b) / 8, (begin + b) / 8 + 1, sizeof(BlockQ4_K));
      decode_scales(rows, at, b, out);
      for (int pair = 0; pair < 4; ++pair) {
        for (int half = 0; half < 2; ++half) {
          const Quad quad = transpose16(rows, at + 16 + 32 * pair + 16 * half);
          for (int k = 0; k < 4; ++k) {
            store(out.values[b + 2 * pair][4 * half + k], low_nibbles(quad.v[k]));
            store(out.values[b + 2 * pair + 1][4 * half + k], high_nibbles(quad.v[k]));
          }
        }
      }
    }
  }
};

struct Q6_K {
  /// The 4 blocks of 128 columns: 16 of each block's columns, bytes 16 * half and on.
  static void decode_part(RowPointers rows, int64_t ql, int64_t qh, int half, uint8_t (*out)[8][kRows][4]) {
    const Quad low = transpose16(rows, ql + 16 * half);
    const Quad low2 = transpose16(rows, ql + 32 + 16 * half);
    const Quad high = transpose16(rows, qh + 16 * half);
    const __m256i top = _mm256_set1_epi8(48);
    for (int k = 0; k < 4; ++k) {
      const __m256i h = high.v[k];
      const int at = 4 * half + k;
      store(out[0][at], _mm256_or_si256(low_nibbles(low.v[k]), _mm256_and_si256(_mm256_slli_epi16(h, 4), top)));
      store(out[1][at], _mm256_or_si256(low_nibbles(low2.v[k]), _mm256_and_si256(_mm256_slli_epi16(h, 2), top)));
      store(out[2][at], _mm256_or_si256(high_nibbles(low.v[k]), _mm256_and_si256(h, top)));
      store(out[3][at], _mm256_or_si256(high_nibbles(low2.v[k]), _mm256_and_si256(_mm256_srli_epi16(h, 2), top)));
    }
  }

  static void decode(RowPointers rows, int64_t stride, int64_t begin, int32_t blocks, Panel& out) {
    for (int32_t b = 0; b < blocks; b += 8) {
      const int64_t at = (begin + b) / 8 * static_cast<int64_t>(sizeof(BlockQ6_K));
      prefetch_next(rows, stride, (begin + b) / 8, (begin + b) / 8 + 1, sizeof(BlockQ6_K));
      const __m256 d = load_halves(rows, at + 208);
      for (int i = 0; i < 8; ++i) _mm256_store_ps(out.scales[b + i], d);
      const Quad scales = transpose16(rows, at + 192);
      for (int i = 0; i < 16; ++i) {
        // Byte i % 4 to the upper half of both int16 lanes, then down with its sign.
        const __m256i both = _mm256_shuffle_epi8(
            scales.v[i / 4], _mm256_add_epi8(_mm256_set1_epi8(static_cast<char>(i % 4)),
                                             _mm256_set_epi32(0x0c000c00, 0x08000800, 0x04000400, 0, 0x0c000c00,
                                                              0x08000800, 0x04000400, 0)));
        store(out.factors[b + i / 2][i % 2], _mm256_srai_epi16(both, 8));
      }
      for (int part = 0; part < 2; ++part) {
        for (int half = 0; half < 2; ++half) {
          decode_part(rows, at + 64 * part, at + 128 + 32 * part, half, out.values + b + 4 * part);
        }
      }
    }
  }
};

// -- Panels times activations. Each type's block_sums gives the integer part of a block for T tokens.

/// Where a block's entries are in an int8 row, in bytes from its start: the same for all tokens.
struct Places {
  int64_t values;
  int64_t scales;
  int64_t scaled_sums;
  int64_t offsets8;
  int64_t offsets32;
};

inline Places places(int64_t cols, int64_t block) {
  const Int8Row row = int8_row(static_cast<const std::byte*>(nullptr), cols);
  const auto at = [](const void* pointer) { return reinterpret_cast<intptr_t>(pointer); };
  return {at(row.values) + 32 * block, at(row.scales) + 4 * block, at(row.scaled_sums) + 4 * block,
          at(row.offsets8) + 4 * block, at(row.offsets32) + 8 * block};
}

/// 4 bytes to all dwords.
inline __m256i broadcast4(const std::byte* from) {
  int32_t value;
  std::memcpy(&value, from, sizeof(value));
  return _mm256_set1_epi32(value);
}
inline __m256 broadcast_float(const std::byte* from) { return _mm256_castsi256_ps(broadcast4(from)); }

inline __m256i load(const void* from) { return _mm256_load_si256(static_cast<const __m256i*>(from)); }

/// Fixes the order of additions: regrouped by the compiler, the sums of a block need more registers than there are.
inline void keep_order(__m256i& sum) { asm("" : "+x"(sum)); }

/// sums[t] += w[k] * y[t] in int16, for `kCount` groups of 4 columns.
template <int T, int kCount>
inline void add_products(const uint8_t (*w)[kRows][4], const std::byte* const* rows, int64_t values, __m256i* sums) {
#pragma GCC unroll 8
  for (int k = 0; k < kCount; ++k) {
    const __m256i weights = load(w[k]);
    for (int t = 0; t < T; ++t) {
      const __m256i y = broadcast4(rows[t] + values + 4 * k);
      sums[t] = _mm256_add_epi16(sums[t], _mm256_maddubs_epi16(weights, y));
      keep_order(sums[t]);
    }
  }
}

/// Unsigned weights below 16: 16 columns of a lane reach 15 * 127 * 16 = 30480, so the block needs no int32. The lane's
/// sum is of (q - 8) y; what wraps on the way there wraps back.
template <int T>
inline void block_sums(Q4_0 /*type*/, const Panel& panel, int32_t b, const std::byte* const* rows, const Places& at,
                       __m256i* dots) {
  for (int t = 0; t < T; ++t) dots[t] = broadcast4(rows[t] + at.offsets8);
  add_products<T, 8>(panel.values[b], rows, at.values, dots);
  for (int t = 0; t < T; ++t) dots[t] = _mm256_madd_epi16(dots[t], _mm256_set1_epi16(1));
}

/// The same without the offset: Q4_K's is a float.
template <int T>
inline void block_sums(Q4_K /*type*/, const Panel& panel, int32_t b, const std::byte* const* rows, const Places& at,
                       __m256i* dots) {
  for (int t = 0; t < T; ++t) dots[t] = _mm256_setzero_si256();
  add_products<T, 8>(panel.values[b], rows, at.values, dots);
  for (int t = 0; t < T; ++t) dots[t] = _mm256_madd_epi16(dots[t], _mm256_set1_epi16(1));
}

/// Unsigned weights below 64: a pair of products reaches 16002, and the sum of (q - 32) y over the 8 columns of a lane in
/// 16 at most 32 * 127 * 8 = 32512. As above it may wrap on the way.
template <int T>
inline void block_sums(Q6_K /*type*/, const Panel& panel, int32_t b, const std::byte* const* rows, const Places& at,
                       __m256i* dots) {
  for (int t = 0; t < T; ++t) dots[t] = _mm256_setzero_si256();
  for (int half = 0; half < 2; ++half) {
    __m256i sums[T];
    for (int t = 0; t < T; ++t) sums[t] = broadcast4(rows[t] + at.offsets32 + 4 * half);
    add_products<T, 4>(panel.values[b] + 4 * half, rows, at.values + 16 * half, sums);
    const __m256i factor = load(panel.factors[b][half]);
    for (int t = 0; t < T; ++t) dots[t] = _mm256_add_epi32(dots[t], _mm256_madd_epi16(sums[t], factor));
  }
}

/// Signed weights: |w| <= 128 times y with w's sign; a pair of products reaches 128 * 127 * 2 = 32512.
template <int T>
inline void block_sums(Q8_0 /*type*/, const Panel& panel, int32_t b, const std::byte* const* rows, const Places& at,
                       __m256i* dots) {
  for (int t = 0; t < T; ++t) dots[t] = _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const __m256i w = load(panel.values[b][k]);
    const __m256i magnitude = _mm256_abs_epi8(w);
    for (int t = 0; t < T; ++t) {
      const __m256i y = _mm256_sign_epi8(broadcast4(rows[t] + at.values + 4 * k), w);
      dots[t] = _mm256_add_epi32(dots[t], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, y), ones));
      keep_order(dots[t]);
    }
  }
}

constexpr bool has_minima(Q4_K /*type*/) { return true; }
template <typename Type>
constexpr bool has_minima(Type /*type*/) {
  return false;
}

/// Continues the accumulators of 8 rows and T tokens over `blocks` blocks, the first one at `at`.
template <typename Type, int T>
[[gnu::noinline]] void tile(const Panel& panel, int32_t blocks, const std::byte* const* inputs, Places at,
                            float (*acc)[kRows]) {
  const std::byte* rows[T];
  __m256 sums[T];
  for (int t = 0; t < T; ++t) {
    rows[t] = inputs[t];
    sums[t] = _mm256_load_ps(acc[t]);
  }
  for (int32_t b = 0; b < blocks; ++b) {
    __m256i dots[T];
    block_sums<T>(Type{}, panel, b, rows, at, dots);
    const __m256 scale = _mm256_load_ps(panel.scales[b]);
    for (int t = 0; t < T; ++t) {
      const __m256 both = _mm256_mul_ps(scale, broadcast_float(rows[t] + at.scales));
      sums[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t]), both, sums[t]);
    }
    if constexpr (has_minima(Type{})) {
      const __m256 minimum = _mm256_load_ps(panel.minima[b]);
      for (int t = 0; t < T; ++t) {
        sums[t] = _mm256_fnmadd_ps(minimum, broadcast_float(rows[t] + at.scaled_sums), sums[t]);
      }
    }
    at.values += 32;
    at.scales += 4;
    at.scaled_sums += 4;
    at.offsets8 += 4;
    at.offsets32 += 8;
  }
  for (int t = 0; t < T; ++t) _mm256_store_ps(acc[t], sums[t]);
}

constexpr int32_t kTokens = 4;

template <typename Type>
void matmul(const std::byte* weights, int64_t stride, int64_t cols, int64_t row_begin, int64_t row_end,
            const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  Panel panel;
  const int64_t blocks = cols / 32;
  for (int64_t r = row_begin; r < row_end; r += kRows) {
    // Beyond the end the last row is computed again and thrown away.
    const int64_t rows_here = row_end - r < kRows ? row_end - r : kRows;
    const size_t bytes = static_cast<size_t>(rows_here) * sizeof(float);
    const std::byte* rows[kRows];
    for (int i = 0; i < kRows; ++i) rows[i] = weights + (r + (i < rows_here ? i : rows_here - 1)) * stride;
    for (int64_t begin = 0; begin < blocks; begin += kChunkBlocks) {
      const auto n = static_cast<int32_t>(blocks - begin < kChunkBlocks ? blocks - begin : kChunkBlocks);
      Type::decode(rows, stride, begin, n, panel);
      const Places at = places(cols, begin);
      for (int32_t t = 0; t < tokens; t += kTokens) {
        const int32_t count = tokens - t < kTokens ? tokens - t : kTokens;
        alignas(32) float acc[kTokens][kRows] = {};
        if (begin > 0) {
          for (int32_t i = 0; i < count; ++i) std::memcpy(acc[i], outputs[t + i] + r, bytes);
        }
        switch (count) {
          case 4: tile<Type, 4>(panel, n, inputs + t, at, acc); break;
          case 3: tile<Type, 3>(panel, n, inputs + t, at, acc); break;
          case 2: tile<Type, 2>(panel, n, inputs + t, at, acc); break;
          default: tile<Type, 1>(panel, n, inputs + t, at, acc); break;
        }
        for (int32_t i = 0; i < count; ++i) std::memcpy(outputs[t + i] + r, acc[i], bytes);
      }
    }
  }
}

// -- Activations.

inline int32_t maximum_lane(__m256i v) {
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
  return _mm_cvtsi128_si32(four);
}

void quantize_block(const float* x, int64_t b, const Int8Row& row) {
  __m256 in[4];
  __m256i largest = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    in[i] = _mm256_loadu_ps(x + 8 * i);
    // Magnitudes compare as integers, which puts infinite above finite and NaN above both.
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(in[i]), _mm256_set1_epi32(0x7fffffff));
    largest = _mm256_max_epi32(largest, bits);
  }
  const int32_t maximum_bits = maximum_lane(largest);
  const bool finite = maximum_bits < 0x7f800000;
  const float maximum = finite ? __builtin_bit_cast(float, maximum_bits) : 0.0f;
  const bool zero = maximum < kInt8MaximumMin;
  const __m256 inverse = _mm256_set1_ps(zero ? 0.0f : 127.0f / maximum);

  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    q[i] = finite ? _mm256_cvtps_epi32(_mm256_mul_ps(in[i], inverse)) : _mm256_setzero_si256();
  }
  const __m256i bytes = _mm256_permutevar8x32_epi32(
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(row.values + 32 * b), bytes);

  // Pairs of columns, then the dwords of each half of 16 columns: (even lane, odd lane) of int16.
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
  std::memcpy(row.offsets8 + 2 * b, &offsets8, sizeof(offsets8));
  std::memcpy(row.offsets32 + 4 * b, &offsets32, sizeof(offsets32));
  row.sums[b] = _mm_cvtsi128_si32(_mm_madd_epi16(block, _mm_set1_epi16(1)));
  row.scales[b] = !finite ? __builtin_nanf("") : zero ? 0.0f : maximum / 127.0f;
  row.scaled_sums[b] = row.scales[b] * static_cast<float>(row.sums[b]);
}

}  // namespace

void quantize_row(const float* x, int64_t cols, std::byte* out) {
  const Int8Row row = int8_row(out, cols);
  for (int64_t b = 0; b < cols / 32; ++b) quantize_block(x + 32 * b, b, row);
  const auto used = static_cast<size_t>(int8_row_bytes_used(cols));
  std::memset(out + used, 0, int8_row_bytes(cols) - used);
}

void matmul_int8(TensorType type, const std::byte* weights, int64_t cols, int64_t row_begin, int64_t row_end,
                 const std::byte* const* inputs, int32_t tokens, float* const* outputs) {
  const int64_t stride = weight_row_bytes(type, cols);
  switch (type) {
    case TensorType::kQ8_0:
      return matmul<Q8_0>(weights, stride, cols, row_begin, row_end, inputs, tokens, outputs);
    case TensorType::kQ4_0:
      return matmul<Q4_0>(weights, stride, cols, row_begin, row_end, inputs, tokens, outputs);
    case TensorType::kQ4_K:
      return matmul<Q4_K>(weights, stride, cols, row_begin, row_end, inputs, tokens, outputs);
    default: return matmul<Q6_K>(weights, stride, cols, row_begin, row_end, inputs, tokens, outputs);
  }
}

}  // namespace cairn::cpu::avx2
#endif
