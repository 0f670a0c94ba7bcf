#include "kernels/cpu/kv_store.h"

#include <algorithm>

#include "kernels/cpu/kv_page.h"

namespace cairn::cpu {
namespace {

// Element i goes to to[i * stride].
template <class T>
void scatter(const T* from, int32_t n, int64_t stride, void* to) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i * stride] = from[i];
}

// Elements [begin, begin + n) of a head's row, at most kKvBlock, of token `token` of a page. Dimension d of token t is
// element d * dim_stride + t * token_stride of the head's part of the page; for kQ8_0 of its piece, d counted in it.
void store_block(const RowKernels& kernels, KvType type, const float* x, int32_t begin, int32_t n, int32_t token,
                 int64_t dim_stride, int64_t token_stride, std::byte* head) {
  const int64_t at = begin * dim_stride + token * token_stride;
  switch (type) {
    case KvType::kF32:
      scatter(x, n, dim_stride, reinterpret_cast<float*>(head) + at);
      break;
    case KvType::kF16: {
      uint16_t halves[kKvBlock];
      kernels.to_half(x, n, halves);
      scatter(halves, n, dim_stride, reinterpret_cast<uint16_t*>(head) + at);
      break;
    }
    case KvType::kQ8_0: {
      int8_t values[kKvBlock];
      std::byte* piece = head + begin / kKvBlock * kKvPieceBytes;
      reinterpret_cast<uint16_t*>(piece + kKvPieceScales)[token] = kernels.to_q8_0(x, n, values);
      scatter(values, n, dim_stride, piece + token * token_stride);
      break;
    }
  }
}

void store_keys(const RowKernels& kernels, KvType type, const float* x, int32_t dim, int32_t token, std::byte* head) {
  for (int32_t begin = 0; begin < dim; begin += kKvBlock) {
    store_block(kernels, type, x + begin, begin, std::min(kKvBlock, dim - begin), token, kPageTokens, 1, head);
  }
}

void store_values(const RowKernels& kernels, KvType type, const float* x, int32_t dim, int32_t token, std::byte* head) {
  const int32_t stride = type == KvType::kQ8_0 ? kKvBlock : dim;
  for (int32_t begin = 0; begin < dim; begin += kKvBlock) {
    store_block(kernels, type, x + begin, begin, std::min(kKvBlock, dim - begin), token, 1, stride, head);
  }
}

}  // namespace

void store_kv_rows(const RowKernels& kernels, const KvView& kv, const AttentionSlice& slice, int32_t begin, int32_t end,
                   const float* k, const float* v) {
  // A head's rows of one page after the other: its keys, a cache line for each dimension, stay in the L1 cache.
  for (int32_t row = begin, next = begin; row < end; row = next) {
    const int32_t position = slice.position_begin + row;
    const PageId page = slice.pages[position / kPageTokens];
    const int32_t token = position % kPageTokens;
    next = std::min(end, row + kPageTokens - token);
    for (int32_t head = 0; head < kv.kv_heads; ++head) {
      for (int32_t i = 0; i < next - row; ++i) {
        const int64_t from = (int64_t{slice.row_begin} + row + i) * kv.kv_heads + head;
        store_keys(kernels, kv.type, k + from * kv.key_dim, kv.key_dim, token + i, page_keys(kv, page, head));
        store_values(kernels, kv.type, v + from * kv.value_dim, kv.value_dim, token + i, page_values(kv, page, head));
      }
    }
  }
}

}  // namespace cairn::cpu
