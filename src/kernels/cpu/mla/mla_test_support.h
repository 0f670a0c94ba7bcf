/// For the tests of MlaOperations: a sequence's rows in pages of one view.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/test_support.h"
#include "quant/float_formats.h"

namespace cairn::kernels::cpu {

/// Rows of `tokens` positions, and pages in random order; memory that is not stored to is NaN.
class RowPages {
 public:
  RowPages(Backend& backend, KvType type, int32_t dim, int32_t tokens_per_row, int32_t tokens, Random& random)
      : backend_(backend), rows(random.normals(int64_t{kv_rows(tokens, tokens_per_row)} * dim)) {
    round_rows(type, dim, rows);
    const int32_t used = (tokens + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(used) + 3);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.integer(0, static_cast<int32_t>(i))]);
    }
    for (int32_t i = 0; i < used; ++i) pages.push_back(PageId{order[i]});
    kv = {.type = type, .kv_heads = 1, .key_dim = dim, .value_dim = 0, .tokens_per_row = tokens_per_row};
    kv.layer_offset = 64;
    kv.page_stride = (kv.rows_per_page() * kv_row_bytes(type, dim) + 63) / 64 * 64 + 128;
    memory_ = backend.allocate(kv.page_stride * static_cast<int64_t>(order.size())).value();
    std::fill_n(static_cast<uint8_t*>(memory_.data()), memory_.bytes(), uint8_t{0xff});
    kv.base = static_cast<std::byte*>(memory_.data());
  }

  AttentionSlice slice(int32_t begin, int32_t end, int32_t row_begin = 0) const {
    return {row_begin, end - begin, begin, pages};
  }
  /// Stores the rows that positions [begin, end) complete.
  void store(int32_t begin, int32_t end) {
    const AttentionSlice one = slice(begin, end);
    const int32_t first = kv_rows(begin, kv.tokens_per_row);
    backend_.mla()->store_rows(kv, {&one, 1}, rows.data() + int64_t{first} * kv.key_dim);
  }

 private:
  Backend& backend_;
  Buffer memory_;

 public:
  std::vector<float> rows;
  std::vector<PageId> pages;
  KvView kv;
};

}  // namespace cairn::kernels::cpu
