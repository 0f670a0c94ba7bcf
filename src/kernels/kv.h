/// How keys and values lie in memory: types, pages, and which of them a call is about. Part of the interface of
/// kernels/backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace cairn::kernels {

enum class KvType {
  kF32,
  kF16,
  kQ8_0,       ///< per 32 elements of a head's row: int8 values and a binary16 scale, maximum / 127, as in GGUF's Q8_0
  kI16,        ///< per row of a head: int16 values and a float32 scale; as precise as kF16 (Backend::stored_kv_type)
  kQ8_0Pairs,  ///< the numbers of kQ8_0 in another order (Backend::stored_kv_type)
  kBF16,       ///< bfloat16: the range of kF32, 8 bits of precision
};
/// Elements that share a scale of kQ8_0, and their bytes.
inline constexpr int32_t kKvBlock = 32;
inline constexpr int64_t kKvBlockBytes = 34;
/// Bytes that one head's row of `dim` elements takes. Of kQ8_0 they are whole blocks, of kI16 pairs: any dim works,
/// multiples of 32 waste nothing.
constexpr int64_t kv_row_bytes(KvType type, int32_t dim) {
  if (type == KvType::kQ8_0 || type == KvType::kQ8_0Pairs)
    return (int64_t{dim} + kKvBlock - 1) / kKvBlock * kKvBlockBytes;
  if (type == KvType::kI16) return (int64_t{dim} + 1) / 2 * 4 + 4;
  return int64_t{dim} * (type == KvType::kF32 ? 4 : 2);
}

/// Tokens per KV page.
inline constexpr int32_t kPageTokens = 32;
/// Rows that a page has of a layer with one for every `tokens_per_row` tokens.
constexpr int32_t rows_per_kv_page(int32_t tokens_per_row) {
  return tokens_per_row < kPageTokens ? kPageTokens / tokens_per_row : 1;
}

/// Where one layer's keys and values are. A page of the layer begins at base + page * page_stride + layer_offset, a
/// multiple of 64 bytes: for each KV head rows_per_page() rows of keys, then for each head as many of values, of
/// kv_row_bytes. In which order a head's rows lie within their bytes is the backend's business (the CPU's:
/// kernels/cpu/attention/kv_page.h), so pages are copied as a whole only.
struct KvView {
  std::byte* base = nullptr;
  int64_t page_stride = 0;   ///< bytes from a page to the next
  int64_t layer_offset = 0;  ///< bytes from a page's start to this layer's part
  KvType type = KvType::kF32;
  int32_t kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  /// > 1: a row stands for so many positions, [r * tokens_per_row, (r + 1) * tokens_per_row), and lies in the page of
  /// the last of them, which makes it: a divisor of kPageTokens or a multiple of it.
  int32_t tokens_per_row = 1;

  constexpr int32_t rows_per_page() const { return rows_per_kv_page(tokens_per_row); }
};

/// Where row `row` of a layer is: an index into a sequence's pages, and the row's number within the page.
struct KvRowPlace {
  int32_t page = 0;
  int32_t row = 0;
};
constexpr KvRowPlace kv_row_place(int32_t row, int32_t tokens_per_row) {
  const int32_t last = (row + 1) * tokens_per_row - 1;
  return {last / kPageTokens, last % kPageTokens / tokens_per_row};
}
/// Rows that are whole once positions [0, tokens) are there.
constexpr int32_t kv_rows(int32_t tokens, int32_t tokens_per_row) { return tokens / tokens_per_row; }

/// Rows [row_begin, row_begin + rows) of a batch belong to one sequence, at positions position_begin, +1, ...; pages[i]
/// holds positions [i * kPageTokens, (i+1) * kPageTokens). Pages that no row writes to and that lie wholly before every
/// row's window are not looked at and may be kNoPage.
struct AttentionSlice {
  int32_t row_begin = 0;
  int32_t rows = 0;
  int32_t position_begin = 0;
  std::span<const PageId> pages;
};

}  // namespace cairn::kernels
