#include "kernels/low_rank.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/backend.h"

namespace cairn::kernels {
namespace {

// Where no row takes the adapter, its product would add zeros.
bool is_taken(std::span<const float> scales) {
  return std::ranges::any_of(scales, [](float scale) { return scale != 0; });
}

// A row's bytes do not depend on whether others are scaled: a factor of 1 changes none.
void scale_rows(Backend& backend, float* low, std::span<const float> scales, int64_t cols) {
  if (std::ranges::any_of(scales, [](float scale) { return scale != 1; })) backend.scale_rows(low, scales, cols);
}

/// B (A x) in the adapters' memory.
struct Products {
  MatmulTarget low;
  MatmulTarget added;
};

Products products_of(const LowRank& adapter, int64_t inputs, int64_t rank) {
  const LowRankScratch& scratch = *adapter.scratch;
  constexpr int64_t kBytes = sizeof(float);
  CAIRN_CHECK(std::cmp_less_equal(inputs * rank * kBytes, scratch.low.bytes()));
  CAIRN_CHECK(std::cmp_less_equal(inputs * adapter.b.rows * kBytes, scratch.added.bytes()));
  return {{.weight = &adapter.a, .out = scratch.low.floats()}, {.weight = &adapter.b, .out = scratch.added.floats()}};
}

struct Choices {
  int32_t rows;
  const int32_t* ids;
  int32_t used;
};

// A part that all experts share is a matrix like others.
void multiply(Backend& backend, const MatmulTarget& product, const float* x, const Choices& choices,
              bool input_per_choice) {
  const std::span<const MatmulTarget> one(&product, 1);
  if (product.weight->experts == 1) {
    backend.matmul(one, x, input_per_choice ? choices.rows * choices.used : choices.rows);
  } else {
    backend.grouped_matmul(one, x, choices.rows, choices.ids, choices.used, input_per_choice);
  }
}

}  // namespace

void LowRankRows::reserve(std::span<const float> scales, int64_t rows_max) {
  scales_.assign(scales.begin(), scales.end());
  all_.resize(scales.size());
  chosen_.resize(scales.size());
  for (std::vector<float>& rows : all_) rows.reserve(static_cast<size_t>(rows_max));
  for (std::vector<float>& rows : chosen_) rows.reserve(static_cast<size_t>(rows_max));
}

void LowRankRows::begin() {
  for (std::vector<float>& rows : all_) rows.clear();
  chooses_ = false;
}

void LowRankRows::add(std::span<const float> scales, int32_t rows) {
  CAIRN_CHECK(scales.empty() || scales.size() == scales_.size());
  for (size_t adapter = 0; adapter < all_.size(); ++adapter) {
    all_[adapter].insert(all_[adapter].end(), static_cast<size_t>(rows), (scales.empty() ? scales_ : scales)[adapter]);
  }
}

void LowRankRows::choose(std::span<const int32_t> first, std::span<const int32_t> then) {
  chooses_ = true;
  for (size_t adapter = 0; adapter < all_.size(); ++adapter) {
    chosen_[adapter].clear();
    for (const std::span<const int32_t> rows : {first, then}) {
      for (const int32_t row : rows) chosen_[adapter].push_back(all_[adapter][static_cast<size_t>(row)]);
    }
  }
}

std::span<const float> LowRankRows::of(int32_t adapter, int32_t rows) const {
  const std::vector<float>& scales = (chooses_ ? chosen_ : all_)[static_cast<size_t>(adapter)];
  CAIRN_CHECK(rows <= std::ssize(scales));
  return std::span(scales).first(static_cast<size_t>(rows));
}

void add_low_rank(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows) {
  for (const MatmulTarget& target : projections) {
    for (const LowRank& adapter : target.adapters) {
      const std::span<const float> scales = adapter.scratch->rows.of(adapter.adapter, rows);
      if (!is_taken(scales)) continue;
      const Products products = products_of(adapter, rows, adapter.a.rows);
      backend.matmul({&products.low, 1}, x, rows);
      scale_rows(backend, products.low.out, scales, adapter.a.rows);
      backend.matmul({&products.added, 1}, products.low.out, rows);
      backend.add(target.out, products.added.out, rows * adapter.b.rows, adapter.scale);
    }
  }
}

void add_low_rank_of_experts(Backend& backend, std::span<const MatmulTarget> projections, const float* x, int32_t rows,
                             const int32_t* ids, int32_t used, bool input_per_choice) {
  const Choices choices{rows, ids, used};
  for (const MatmulTarget& target : projections) {
    for (const LowRank& adapter : target.adapters) {
      const std::span<const float> scales = adapter.scratch->rows.of(adapter.adapter, rows);
      if (!is_taken(scales)) continue;
      const bool low_per_choice = input_per_choice || adapter.a.experts > 1;
      CAIRN_DCHECK(low_per_choice || adapter.b.experts > 1 || used == 1);
      const Products products = products_of(adapter, int64_t{rows} * used, adapter.a.rows);
      multiply(backend, products.low, x, choices, input_per_choice);
      scale_rows(backend, products.low.out, scales, (low_per_choice ? used : 1) * adapter.a.rows);
      multiply(backend, products.added, products.low.out, choices, low_per_choice);
      backend.add(target.out, products.added.out, int64_t{rows} * used * adapter.b.rows, adapter.scale);
    }
  }
}

void look_up(Backend& backend, const Weight& table, std::span<const LowRank> adapters, std::span<const TokenId> ids,
             float scale, float* out) {
  backend.embed(table, ids, scale, out);
  const auto rows = static_cast<int32_t>(ids.size());
  for (const LowRank& adapter : adapters) {
    const std::span<const float> scales = adapter.scratch->rows.of(adapter.adapter, rows);
    if (!is_taken(scales)) continue;
    const Products products = products_of(adapter, rows, adapter.a.cols);
    backend.embed(adapter.a, ids, 1, products.low.out);
    scale_rows(backend, products.low.out, scales, adapter.a.cols);
    backend.matmul({&products.added, 1}, products.low.out, rows);
    backend.add(out, products.added.out, rows * adapter.b.rows, scale * adapter.scale);
  }
}

}  // namespace cairn::kernels
