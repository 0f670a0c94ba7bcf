#include "kernels/cpu/rows/kv_store.h"

#include <algorithm>

#include "kernels/cpu/attention/kv_page.h"

namespace cairn::kernels::cpu {
namespace {

// Writes element i to to[i * stride].
template <class T>
void scatter(const T* from, int32_t n, int64_t stride, void* to) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(to)[i * stride] = from[i];
}

// Stores elements [begin, begin + n) of a head's row, at most kKvBlock, of token `token` of a page. Dimension d of
// token t is element d * dim_stride + t * token_stride of the head's part of the page; for kQ8_0 of its piece, with d
// counted in the piece.
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
    case KvType::kBF16: {
      uint16_t uppers[kKvBlock];
      kernels.to_bf16(x, n, uppers);
      scatter(uppers, n, dim_stride, reinterpret_cast<uint16_t*>(head) + at);
      break;
    }
    case KvType::kQ8_0: {
      int8_t values[kKvBlock];
      std::byte* piece = head + begin / kKvBlock * kKvPieceBytes;
      reinterpret_cast<uint16_t*>(piece + kKvPieceScales)[token] = kernels.to_q8_0(x, n, values);
      scatter(values, n, dim_stride, piece + token * token_stride);
      break;
    }
    case KvType::kI16:
    case KvType::kQ8_0Pairs:
      CAIRN_CHECK(false && "pairs are stored by other functions");
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

// Stores the elements of a row of kI16, one after the other.
template <class Store>
void store_int16(const Int16Attention& kernels, const float* x, int32_t dim, float scale, const Store& store) {
  int16_t values[kKvBlock];
  for (int32_t begin = 0; begin < dim; begin += kKvBlock) {
    const int32_t n = std::min(kKvBlock, dim - begin);
    kernels.round(x + begin, n, scale, values);
    for (int32_t i = 0; i < n; ++i) store(begin + i, values[i]);
  }
}

void store_int16_keys(const Int16Attention& kernels, const float* x, int32_t dim, int32_t token, std::byte* head) {
  const float scale = kernels.key_scale(x, dim);
  reinterpret_cast<float*>(head + key_scales_at(dim))[token] = scale;
  const int32_t pairs = key_pairs(dim);
  auto* to = reinterpret_cast<int16_t*>(head) + int64_t{2} * token;
  if (dim < 2 * pairs) to[(pairs - 1) * 2 * kPageTokens + 1] = 0;
  store_int16(kernels, x, dim, scale, [&](int32_t i, int16_t value) {
    to[i < pairs ? i * 2 * kPageTokens : (i - pairs) * 2 * kPageTokens + 1] = value;
  });
}

void store_int16_values(const Int16Attention& kernels, const float* x, int32_t dim, int32_t token, std::byte* head) {
  const float scale = kernels.value_scale(x, dim);
  reinterpret_cast<float*>(head + value_scales_at(dim))[token] = scale;
  constexpr int32_t kHalf = kPageTokens / 2;
  auto* to = reinterpret_cast<int16_t*>(head) + int64_t{2} * (token % kHalf) * dim + token / kHalf;
  store_int16(kernels, x, dim, scale, [&](int32_t i, int16_t value) { to[2 * i] = value; });
}

// Stores the pieces of a row of kQ8_0Pairs: calls store(to, i, value) for the elements i of a piece at `to`.
template <class Store>
void store_q8_0_pairs(const RowKernels& kernels, const float* x, int32_t dim, int32_t token, std::byte* head,
                      const Store& store) {
  for (int32_t begin = 0; begin < dim; begin += kKvBlock, head += kKvPieceBytes) {
    int8_t values[kKvBlock];
    const int32_t n = std::min(kKvBlock, dim - begin);
    reinterpret_cast<uint16_t*>(head + kKvPieceScales)[token] = kernels.to_q8_0(x + begin, n, values);
    for (int32_t i = 0; i < n; ++i) store(reinterpret_cast<int8_t*>(head), i, values[i]);
  }
}

void store_q8_0_key_pairs(const RowKernels& kernels, const float* x, int32_t dim, int32_t token, std::byte* head) {
  constexpr int32_t kPairs = key_pairs(kKvBlock);
  store_q8_0_pairs(kernels, x, dim, token, head, [token](int8_t* piece, int32_t i, int8_t value) {
    piece[(i % kPairs * kPageTokens + token) * 2 + i / kPairs] = value;
  });
}

void store_q8_0_value_pairs(const RowKernels& kernels, const float* x, int32_t dim, int32_t token, std::byte* head) {
  constexpr int32_t kHalf = kPageTokens / 2;
  store_q8_0_pairs(kernels, x, dim, token, head, [token](int8_t* piece, int32_t i, int8_t value) {
    piece[(token % kHalf * kKvBlock + i) * 2 + token / kHalf] = value;
  });
}

void store_row(const Isa& isa, const KvView& kv, const float* key, const float* value, int32_t token, std::byte* keys,
               std::byte* values) {
  switch (kv.type) {
    case KvType::kI16:
      store_int16_keys(*isa.attention->int16, key, kv.key_dim, token, keys);
      store_int16_values(*isa.attention->int16, value, kv.value_dim, token, values);
      return;
    case KvType::kQ8_0Pairs:
      store_q8_0_key_pairs(*isa.rows, key, kv.key_dim, token, keys);
      store_q8_0_value_pairs(*isa.rows, value, kv.value_dim, token, values);
      return;
    default:
      store_keys(*isa.rows, kv.type, key, kv.key_dim, token, keys);
      store_values(*isa.rows, kv.type, value, kv.value_dim, token, values);
  }
}

}  // namespace

void store_kv_rows(const Isa& isa, const KvView& kv, const AttentionSlice& slice, int32_t begin, int32_t end,
                   const float* k, const float* v) {
  // Stores a head's rows one page at a time: the lines of its keys, one for each dimension, stay in the L1 cache.
  for (int32_t row = begin, next = begin; row < end; row = next) {
    const int32_t position = slice.position_begin + row;
    const PageId page = slice.pages[position / kPageTokens];
    const int32_t token = position % kPageTokens;
    next = std::min(end, row + kPageTokens - token);
    for (int32_t head = 0; head < kv.kv_heads; ++head) {
      for (int32_t i = 0; i < next - row; ++i) {
        const int64_t from = (int64_t{slice.row_begin} + row + i) * kv.kv_heads + head;
        store_row(isa, kv, k + from * kv.key_dim, v + from * kv.value_dim, token + i, page_keys(kv, page, head),
                  page_values(kv, page, head));
      }
    }
  }
}

}  // namespace cairn::kernels::cpu
