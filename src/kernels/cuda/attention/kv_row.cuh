/// Layout of a head's rows of keys or values in a page: rows one after the other, those of a head together, all heads'
/// keys before all heads' values. A row of kQ8_0 consists of blocks of a binary16 scale and 32 codes.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/kv.h"

namespace cairn::kernels::cuda {

/// A layer's pages, with all sizes and offsets that a kernel needs in bytes.
struct KvPages {
  std::byte* layer = nullptr;  ///< address of the layer's part of page 0
  int64_t page_stride = 0;
  int64_t key_row_bytes = 0;
  int64_t value_row_bytes = 0;
  int64_t values_offset = 0;  ///< offset of the first head's values in a page

  explicit KvPages(const KvView& kv)
      : layer(kv.base + kv.layer_offset),
        page_stride(kv.page_stride),
        key_row_bytes(kv_row_bytes(kv.type, kv.key_dim)),
        value_row_bytes(kv_row_bytes(kv.type, kv.value_dim)),
        values_offset(kv.kv_heads * kPageTokens * key_row_bytes) {}

  /// Row 0 of a head's keys in a page. The kPageTokens rows begin at a multiple of 64 bytes from the page's begin, and
  /// their size is such a multiple.
  __device__ std::byte* keys(int32_t page, int32_t kv_head) const {
    return layer + page * page_stride + kv_head * (kPageTokens * key_row_bytes);
  }
  __device__ std::byte* values(int32_t page, int32_t kv_head) const {
    return layer + page * page_stride + values_offset + kv_head * (kPageTokens * value_row_bytes);
  }
};

/// Elements [d, d + 4) of a row of `dim` elements, d a multiple of 4; those beyond its end are 0.
template <KvType kType>
__device__ inline float4 four_of_row(const std::byte* row, int32_t d, int32_t dim) {
  float four[4] = {0, 0, 0, 0};
  if (d >= dim) return make_float4(0, 0, 0, 0);
  if constexpr (kType == KvType::kF32) {
    const auto* from = reinterpret_cast<const float*>(row) + d;
    if (dim % 4 == 0) return *reinterpret_cast<const float4*>(from);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (d + k < dim) four[k] = from[k];
    }
  } else if constexpr (kType == KvType::kF16) {
    const auto* from = reinterpret_cast<const __half*>(row) + d;
    if (dim % 4 == 0) {
      struct alignas(8) Halves {
        __half2 low, high;
      };
      const Halves halves = *reinterpret_cast<const Halves*>(from);
      const float2 low = __half22float2(halves.low), high = __half22float2(halves.high);
      return make_float4(low.x, low.y, high.x, high.y);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (d + k < dim) four[k] = __half2float(from[k]);
    }
  } else if constexpr (kType == KvType::kBF16) {
    const auto* from = reinterpret_cast<const uint16_t*>(row) + d;
    if (dim % 4 == 0) {
      const uint2 pairs = *reinterpret_cast<const uint2*>(from);
      return make_float4(__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xffff0000u),
                         __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xffff0000u));
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (d + k < dim) four[k] = __uint_as_float(static_cast<uint32_t>(from[k]) << 16);
    }
  } else {
    static_assert(kType == KvType::kQ8_0);
    const std::byte* block = row + d / kKvBlock * kKvBlockBytes;
    const float scale = __half2float(*reinterpret_cast<const __half*>(block));
    const auto* pairs = reinterpret_cast<const char2*>(block + sizeof(__half) + d % kKvBlock);
    const char2 low = pairs[0], high = pairs[1];
    const signed char codes[4] = {low.x, low.y, high.x, high.y};
    // Exact: a product of 8 bits and 11 bits.
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (d + k < dim) four[k] = __fmul_rn(static_cast<float>(codes[k]), scale);
    }
  }
  return make_float4(four[0], four[1], four[2], four[3]);
}

}  // namespace cairn::kernels::cuda
