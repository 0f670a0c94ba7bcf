#include "calibrate/importance_collector.h"

#include <algorithm>

namespace cairn::calibrate {
namespace {

void add_squares(std::span<const float> x, double* sums) {
  for (size_t i = 0; i < x.size(); ++i) sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
}

}  // namespace

void ImportanceCollector::find(std::span<const kernels::MatmulTarget> products) {
  found_.clear();
  for (const kernels::MatmulTarget& product : products) {
    const std::string* name = names_.find(*product.weight);
    if (name == nullptr) continue;
    Sums& sums = sums_[*name];
    if (std::ranges::find(found_, &sums) != found_.end()) continue;
    if (sums.counts.empty()) {
      sums.columns = product.weight->cols;
      sums.squares.resize(static_cast<size_t>(product.weight->experts * product.weight->cols));
      sums.counts.resize(static_cast<size_t>(product.weight->experts));
    }
    found_.push_back(&sums);
  }
}

void ImportanceCollector::see(std::span<const kernels::MatmulTarget> products, std::span<const float> x, int32_t rows) {
  find(products);
  if (found_.empty()) return;
  const size_t columns = x.size() / static_cast<size_t>(rows);
  row_sums_.assign(columns, 0);
  for (size_t begin = 0; begin < x.size(); begin += columns) add_squares(x.subspan(begin, columns), row_sums_.data());
  for (Sums* sums : found_) {
    for (size_t i = 0; i < columns; ++i) sums->squares[i] += row_sums_[i];
    sums->counts[0] += rows;
  }
}

void ImportanceCollector::see_grouped(std::span<const kernels::MatmulTarget> products, std::span<const float> x,
                                      int32_t rows, std::span<const int32_t> ids, int32_t used, bool input_per_choice) {
  find(products);
  const auto columns = static_cast<size_t>(products[0].weight->cols);
  for (Sums* sums : found_) {
    for (size_t choice = 0; choice < static_cast<size_t>(rows) * static_cast<size_t>(used); ++choice) {
      const size_t input = input_per_choice ? choice : choice / static_cast<size_t>(used);
      const auto matrix = static_cast<size_t>(ids[choice]);
      add_squares(x.subspan(input * columns, columns), sums->squares.data() + matrix * columns);
      sums->counts[matrix] += 1;
    }
  }
}

convert::ImportanceMatrix ImportanceCollector::matrix(const gguf::Reader& file) const {
  convert::ImportanceMatrix matrix;
  for (const auto& [name, sums] : sums_) {
    const gguf::Tensor* tensor = file.find_tensor(name);
    if (tensor == nullptr || tensor->shape[0] != sums.columns) continue;
    // A plain tensor may be used as several matrices, of which its columns belong to each.
    const bool plain = tensor->shape.size() < 3;
    const size_t columns = static_cast<size_t>(sums.columns);
    const size_t matrices = plain ? 1 : sums.counts.size();
    std::vector<double> squares(matrices * columns), counts(matrices);
    for (size_t m = 0; m < sums.counts.size(); ++m) {
      const size_t to = plain ? 0 : m;
      for (size_t i = 0; i < columns; ++i) squares[to * columns + i] += sums.squares[m * columns + i];
      counts[to] += sums.counts[m];
    }
    convert::ImportanceEntry& entry = matrix.entries[name];
    entry.sums.assign(squares.begin(), squares.end());
    entry.counts.assign(counts.begin(), counts.end());
  }
  return matrix;
}

}  // namespace cairn::calibrate
