/// Attention over one page on the tensor cores: as page.cuh, with queries, keys, weights and values rounded to float16,
/// or to bfloat16 if keys and values are stored as that, and sums in float32. For keys and values of at most that
/// precision. Here scores and sums are in shared memory; for values with few dimensions mma_registers.cuh has them in
/// registers, with the same queries and pages.
///
/// A query's results follow from its own row of every product, which follows from the page alone, so they do not depend
/// on the other queries.
#pragma once

#include "kernels/cuda/attention/page.cuh"
#include "kernels/cuda/matmul/mma.cuh"
#include "kernels/cuda/weights/bfloat16.cuh"

namespace cairn::kernels::cuda {

/// 16-bit numbers from a row to the next, of queries and of a page: the rows that the lanes of a warp read at once are
/// in different banks. Rows are padded with zeros to a multiple of 16 columns.
CAIRN_HOST_DEVICE constexpr int32_t half_columns(int32_t dim) { return round_up(dim, 16); }
CAIRN_HOST_DEVICE constexpr int32_t half_stride(int32_t dim) { return half_columns(dim) + 8; }

template <bool kBfloat>
__device__ inline uint32_t half_bits(float value) {
  return kBfloat ? bfloat16_of(value) : uint32_t{__half_as_ushort(__float2half_rn(value))};
}
template <bool kBfloat>
__device__ inline uint32_t pack_halves(float low, float high) {
  return half_bits<kBfloat>(low) | half_bits<kBfloat>(high) << 16;
}
// The number, clamped to the range of float16.
__device__ inline float within_halves(float value) {
  constexpr float kLargest = 65504;
  return value > kLargest ? kLargest : value < -kLargest ? -kLargest : value;
}

/// Decodes the page's first `count` rows, of which row_at(i) is the address of the i-th, followed by zeros. Called by a
/// block of kWarps warps.
template <KvType kType, int kWarps = kAttentionWarps, class RowAt>
__device__ void decode_page_halves(const RowAt& row_at, int32_t count, int32_t dim, uint16_t* tile) {
  constexpr bool kBfloat = kType == KvType::kBF16;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int32_t stride = half_stride(dim);
  for (int32_t d = 4 * lane; d < half_columns(dim); d += 4 * kWarp) {
#pragma unroll
    for (int row = warp; row < kPageTokens; row += kWarps) {
      auto* to = reinterpret_cast<uint2*>(tile + row * stride + d);
      if (kType != KvType::kQ8_0 && dim % 4 == 0) {  // copied without conversion
        const bool there = row < count && d < dim;
        *to = there ? *reinterpret_cast<const uint2*>(row_at(row) + 2 * d) : make_uint2(0, 0);
        continue;
      }
      const float4 four = row < count ? four_of_row<kType>(row_at(row), d, dim) : make_float4(0, 0, 0, 0);
      const auto within = [](float value) { return kBfloat ? value : within_halves(value); };
      *to = uint2{pack_halves<kBfloat>(within(four.x), within(four.y)),
                  pack_halves<kBfloat>(within(four.z), within(four.w))};
    }
  }
}

/// The power of two by which a query whose largest magnitude is `largest` is divided as float16: 1 unless a number
/// would be too large.
__device__ inline float query_scale_of(float largest) {
  constexpr float kLargest = 32768;
  if (!(largest > kLargest && largest < INFINITY)) return 1;
  return __uint_as_float(((__float_as_uint(largest) >> 23) - 14) << 23);
}

/// Writes a query as float16, divided by query_scale_of(..), or as bfloat16. Called by a whole warp.
template <bool kBfloat>
__device__ inline void begin_query_halves(const QueryArrays& arrays, int32_t query, const float* q, int32_t dim) {
  const int lane = threadIdx.x % kWarp;
  float largest = 0;
  for (int32_t d = lane; d < dim && !kBfloat; d += kWarp) largest = q == nullptr ? 0 : fmaxf(largest, fabsf(q[d]));
  const float scale = query_scale_of(warp_max(largest));
  const float inverse = 1.0f / scale;
  uint16_t* to = reinterpret_cast<uint16_t*>(arrays.queries) + query * half_stride(dim);
  for (int32_t d = lane; d < half_columns(dim); d += kWarp) {
    const float value = q != nullptr && d < dim ? __fmul_rn(q[d], inverse) : 0.0f;
    to[d] = static_cast<uint16_t>(half_bits<kBfloat>(value));
  }
  if (lane == 0) arrays.query_scale[query] = scale;
}

template <bool kBfloat>
__device__ inline void multiply_halves(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&sums)[4]) {
  if constexpr (kBfloat) {
    multiply_bf16(a, b, sums);
  } else {
    multiply_f16(a, b, sums);
  }
}

__device__ inline uint32_t two_halves(const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); }

/// Products of all queries and all keys of the tile, written to arrays.weights. Each warp has eight keys.
template <bool kBfloat>
__device__ inline void score_page_halves(const QueryArrays& arrays, const uint16_t* tile, int32_t dim) {
  static_assert(kAttentionWarps * 8 == kPageTokens);
  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int32_t stride = half_stride(dim);
  const auto* queries = reinterpret_cast<const uint16_t*>(arrays.queries);
  const uint16_t* key = tile + (8 * warp + g) * stride + 2 * t;
  for (int32_t query = 0; query < arrays.count; query += 16) {
    // Rows beyond the last repeat it, and their results are dropped.
    const uint16_t* upper = queries + min(query + g, arrays.count - 1) * stride + 2 * t;
    const uint16_t* lower = queries + min(query + g + 8, arrays.count - 1) * stride + 2 * t;
    float sums[4] = {};
    for (int32_t d = 0; d < half_columns(dim); d += 16) {
      const uint32_t a[4] = {two_halves(upper + d), two_halves(lower + d), two_halves(upper + d + 8),
                             two_halves(lower + d + 8)};
      const uint32_t b[2] = {two_halves(key + d), two_halves(key + d + 8)};
      multiply_halves<kBfloat>(a, b, sums);
    }
    float* weights = arrays.weights + (8 * warp + 2 * t) * weights_stride(arrays.count) + query + g;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int below = i / 2 * 8;
      if (query + g + below < arrays.count) weights[i % 2 * weights_stride(arrays.count) + below] = sums[i];
    }
  }
}

/// Adds the tile's rows to the sums. Each warp has every fourth group of eight dimensions of all queries.
template <bool kBfloat>
__device__ inline void add_page_halves(const QueryArrays& arrays, const uint16_t* tile, int32_t dim) {
  const int warp = threadIdx.x / kWarp, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int32_t stride = half_stride(dim), columns = value_columns(dim), of_weights = weights_stride(arrays.count);
  for (int32_t query = 0; query < arrays.count; query += 16) {
    // A position that the query does not see has a negative weight, which counts as 0.
    const auto two_weights = [&](int32_t token, int32_t of_query) {
      const float* at = arrays.weights + token * of_weights + min(of_query, arrays.count - 1);
      return pack_halves<kBfloat>(fmaxf(at[0], 0), fmaxf(at[of_weights], 0));
    };
    uint32_t weights[kPageTokens / 16][4];
#pragma unroll
    for (int k = 0; k < kPageTokens / 16; ++k) {
      const int32_t token = 16 * k + 2 * t;
      weights[k][0] = two_weights(token, query + g);
      weights[k][1] = two_weights(token, query + g + 8);
      weights[k][2] = two_weights(token + 8, query + g);
      weights[k][3] = two_weights(token + 8, query + g + 8);
    }
    const int32_t upper = min(query + g, arrays.count - 1), lower = min(query + g + 8, arrays.count - 1);
    const float factors[2] = {arrays.factor[upper], arrays.factor[lower]};
    for (int32_t d = 8 * warp; d < columns; d += 8 * kAttentionWarps) {
      float sums[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t column = d + 2 * t + i % 2;
        const float before = column < columns ? arrays.sums[(i < 2 ? upper : lower) * columns + column] : 0.0f;
        sums[i] = __fmul_rn(before, factors[i / 2]);
      }
#pragma unroll
      for (int k = 0; k < kPageTokens / 16; ++k) {
        const uint16_t* value = tile + (16 * k + 2 * t) * stride + d + g;
        const auto two_values = [&](const uint16_t* at) { return at[0] | static_cast<uint32_t>(at[stride]) << 16; };
        const uint32_t b[2] = {two_values(value), two_values(value + 8 * stride)};
        multiply_halves<kBfloat>(weights[k], b, sums);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int32_t column = d + 2 * t + i % 2, of_query = query + g + i / 2 * 8;
        if (column < columns && of_query < arrays.count) arrays.sums[of_query * columns + column] = sums[i];
      }
    }
  }
}

}  // namespace cairn::kernels::cuda
