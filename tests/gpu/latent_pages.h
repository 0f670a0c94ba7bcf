/// For the tests of latent attention and of the choice of rows on a GPU: rows of several sequences in pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "gpu/lab.h"
#include "gpu/same_rows.h"
#include "kernels/cpu/test_support.h"
#include "kernels/kv.h"

namespace cairn::gpu {

struct SourceShape {
  kernels::KvType type = kernels::KvType::kF32;
  int32_t tokens_per_row = 1;
  int32_t window = 0;
  int32_t chosen_max = 0;  // > 0: random rows
};

/// Rows of several sequences, and their pages on one backend.
class Pages {
 public:
  Pages(kernels::Backend& backend, const SourceShape& shape, int32_t dim, std::span<const int32_t> lengths,
        Random& random)
      : backend_(backend), memory_(backend) {
    int32_t count = 3;  // unused pages
    for (const int32_t tokens : lengths) count += (tokens + kernels::kPageTokens - 1) / kernels::kPageTokens;
    std::vector<int32_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.integer(0, static_cast<int32_t>(i))]);
    }
    for (const int32_t tokens : lengths) {
      Sequence& made = sequences_.emplace_back();
      made.rows = random.normals(int64_t{kernels::kv_rows(tokens, shape.tokens_per_row)} * dim);
      kernels::cpu::round_rows(shape.type, dim, made.rows);
      for (int32_t page = 0; page * kernels::kPageTokens < tokens; ++page) {
        made.pages.push_back(PageId{order.back()});
        order.pop_back();
      }
    }
    view = {.type = shape.type, .kv_heads = 1, .key_dim = dim, .tokens_per_row = shape.tokens_per_row};
    view.layer_offset = 64;
    view.page_stride = (view.rows_per_page() * kernels::kv_row_bytes(shape.type, dim) + 63) / 64 * 64 + 128;
    // Memory that is not written yet is NaN in all types, so that reading it is noticed.
    const std::vector<uint8_t> ones(static_cast<size_t>(view.page_stride * count), 0xff);
    view.base = reinterpret_cast<std::byte*>(memory_.put(ones));
  }

  std::vector<kernels::AttentionSlice> slices(std::span<const Part> parts) const {
    std::vector<kernels::AttentionSlice> slices;
    int32_t row = 0;
    for (const Part& part : parts) {
      slices.push_back({row, part.rows, part.begin, sequences_[part.sequence].pages});
      row += part.rows;
    }
    return slices;
  }
  /// Stores the rows that the parts complete.
  void store(std::span<const Part> parts) {
    std::vector<float> x;
    for (const Part& part : parts) {
      const int32_t first = kernels::kv_rows(part.begin, view.tokens_per_row);
      const int32_t end = kernels::kv_rows(part.begin + part.rows, view.tokens_per_row);
      const auto rows = rows_of(sequences_[part.sequence].rows, view.key_dim, first, end - first);
      x.insert(x.end(), rows.begin(), rows.end());
    }
    Arrays arrays(backend_);
    backend_.mla()->store_rows(view, slices(parts), x.empty() ? arrays.make(1) : arrays.put(x));
    EXPECT_TRUE(backend_.finish().has_value());
  }
  std::vector<float>& rows(size_t sequence) { return sequences_[sequence].rows; }
  /// Overwrites the pages before the one of `position`, as if others used them.
  void forget_before(size_t sequence, int32_t position) {
    for (int32_t page = 0; page < position / kernels::kPageTokens; ++page) sequences_[sequence].pages[page] = kNoPage;
  }

  kernels::KvView view;

 private:
  struct Sequence {
    std::vector<float> rows;
    std::vector<PageId> pages;
  };
  kernels::Backend& backend_;
  Arrays memory_;
  std::vector<Sequence> sequences_;
};

}  // namespace cairn::gpu
