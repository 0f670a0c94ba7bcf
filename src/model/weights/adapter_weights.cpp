#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/backend.h"
#include "model/weights/weight_loader.h"

// The products of LoRA adapters, of WeightLoader.
namespace cairn::model {

Result<std::vector<kernels::LowRank>> WeightLoader::low_rank(std::string_view tensor, const Shape& shape,
                                                             std::span<const RowRange> ranges) {
  std::vector<kernels::LowRank> products;
  for (size_t i = 0; i < options_.adapters.size(); ++i) {
    CAIRN_TRY(const LoraAdapter::Parts parts, options_.adapters[i].find(tensor, shape.cols, shape.rows, shape.experts));
    if (parts.a == nullptr) continue;
    used_.insert({parts.a, parts.b});
    const int64_t rank = parts.b->shape[0];
    const RowRange all{0, rank};
    const int64_t experts_a = parts.a->elements() / (rank * shape.cols);
    const int64_t experts_b = parts.b->elements() / (rank * shape.rows);
    CAIRN_TRY(kernels::Weight a,
              load_ranges(*parts.a, {.rows = rank, .cols = shape.cols, .experts = experts_a}, {&all, 1}));
    CAIRN_TRY(kernels::Weight b,
              load_ranges(*parts.b, {.rows = shape.rows, .cols = rank, .experts = experts_b}, ranges));
    products.push_back(product_of(i, rank, shape.choices, std::move(a), std::move(b)));
  }
  return products;
}

kernels::LowRank WeightLoader::product_of(size_t adapter, int64_t rank, int64_t choices, kernels::Weight a,
                                          kernels::Weight b) {
  int64_t& most = choices_of_ranks_[rank];
  most = std::max(most, choices);
  low_columns_ = std::max(low_columns_, choices * rank);
  added_columns_ = std::max(added_columns_, choices * b.rows);
  const float alpha = options_.adapters[adapter].alpha;
  return {.a = std::move(a),
          .b = std::move(b),
          .adapter = static_cast<int32_t>(adapter),
          .scale = alpha == 0 ? 1 : alpha / static_cast<float>(rank),
          .scratch = scratch_};
}

Result<LookupTable> WeightLoader::token_table(std::string_view name, int64_t rows, int64_t cols) {
  const std::string weight_name = fmt::format("{}.weight", name);
  const int64_t sizes[] = {cols, rows};
  CAIRN_TRY(const gguf::Tensor* tensor, find(weight_name, sizes));
  CAIRN_TRY(Linear whole, bind(name, *tensor, {.rows = rows, .cols = cols}, {0, rows}));
  LookupTable table{.weight = std::move(whole.weight), .adapters = {}};
  for (size_t i = 0; i < options_.adapters.size(); ++i) {
    CAIRN_TRY(const LoraAdapter::Parts parts, options_.adapters[i].find_of_table(weight_name, cols, rows));
    if (parts.a == nullptr) continue;
    used_.insert({parts.a, parts.b});
    const int64_t rank = parts.b->shape[0];
    const RowRange of_a{0, rows}, of_b{0, cols};
    CAIRN_TRY(kernels::Weight a, load_ranges(*parts.a, {.rows = rows, .cols = rank}, {&of_a, 1}));
    CAIRN_TRY(kernels::Weight b, load_ranges(*parts.b, {.rows = cols, .cols = rank}, {&of_b, 1}));
    table.adapters.push_back(product_of(i, rank, 1, std::move(a), std::move(b)));
  }
  return table;
}

// A head's values are W x + B (A x) with its rows of B.
Result<void> WeightLoader::add_joint_adapters(std::string_view name, const JointShape& shape, Linear& keys,
                                              Linear& values) {
  const int64_t rows = shape.keys + shape.values;
  for (size_t i = 0; i < options_.adapters.size(); ++i) {
    CAIRN_TRY(const LoraAdapter::Parts parts,
              options_.adapters[i].find(fmt::format("{}.weight", name), shape.cols, shape.heads * rows, 1));
    if (parts.a == nullptr) continue;
    used_.insert({parts.a, parts.b});
    const int64_t rank = parts.b->shape[0];
    const RowRange all{0, rank}, own{shape.keys, shape.values};
    CAIRN_TRY(kernels::Weight a, load_ranges(*parts.a, {.rows = rank, .cols = shape.cols}, {&all, 1}));
    CAIRN_TRY(kernels::Weight b,
              load_ranges(*parts.b, {.rows = rows, .cols = rank, .experts = shape.heads}, {&own, 1}));
    values.adapters.push_back(product_of(i, rank, shape.heads, std::move(a), std::move(b)));
    CAIRN_TRY(kernels::LowRank turned, turned_product(i, parts, shape));
    keys.adapters.push_back(std::move(turned));
  }
  return {};
}

// W^T x + A^T (B^T x), with the head's rows of B.
Result<kernels::LowRank> WeightLoader::turned_product(size_t adapter, const LoraAdapter::Parts& parts,
                                                      const JointShape& shape) {
  const int64_t rank = parts.b->shape[0];
  std::vector<float> a, b;
  if (!options_.counts_only) {
    CAIRN_TRY(a, decoded(*parts.a));
    CAIRN_TRY(b, decoded(*parts.b));
  }
  const auto turn_b = [&](std::span<float> turned) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t row = 0; row < shape.keys; ++row) {
        const float* from = &b[(h * (shape.keys + shape.values) + row) * rank];
        for (int64_t r = 0; r < rank; ++r) turned[(h * rank + r) * shape.keys + row] = from[r];
      }
    }
  };
  const auto turn_a = [&](std::span<float> turned) {
    for (int64_t r = 0; r < rank; ++r) {
      for (int64_t col = 0; col < shape.cols; ++col) turned[col * rank + r] = a[r * shape.cols + col];
    }
  };
  CAIRN_TRY(kernels::Weight first, load_made({.rows = rank, .cols = shape.keys, .experts = shape.heads}, turn_b));
  CAIRN_TRY(kernels::Weight second, load_made({.rows = shape.cols, .cols = rank}, turn_a));
  return product_of(adapter, rank, shape.heads, std::move(first), std::move(second));
}

Result<void> WeightLoader::check_adapters() const {
  for (const LoraAdapter& adapter : options_.adapters) {
    for (const gguf::Tensor& tensor : adapter.file.tensors()) {
      if (used_.contains(&tensor)) continue;
      return fail_at(fmt::format("tensor {}", tensor.name), Code::kUnsupported,
                     "{}: tensor {} belongs to no matrix of this model that an adapter can change", adapter.path,
                     tensor.name);
    }
  }
  return {};
}

Result<void> WeightLoader::allocate_adapters() {
  if (choices_of_ranks_.empty()) return {};
  const int64_t rows = options_.adapter_rows;
  const int64_t column_bytes = rows * static_cast<int64_t>(sizeof(float));
  // What B multiplies may be longer than every input of the model's own products.
  kernels::WorkspaceSizes sizes;
  for (const auto& [rank, choices] : choices_of_ranks_) sizes.inputs.push_back({rows * choices, rank});
  if (!wants(column_bytes * (low_columns_ + added_columns_) + backend_.workspace_bytes(sizes))) return {};
  CAIRN_TRY_VOID(backend_.reserve(sizes));
  CAIRN_TRY(scratch_->low, backend_.allocate(column_bytes * low_columns_));
  CAIRN_TRY(scratch_->added, backend_.allocate(column_bytes * added_columns_));
  std::vector<float> scales;
  for (const LoraAdapter& adapter : options_.adapters) scales.push_back(adapter.scale);
  scratch_->rows.reserve(scales, rows);
  return {};
}

}  // namespace cairn::model
