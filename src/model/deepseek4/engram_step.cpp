#include <algorithm>
#include <utility>

#include "kernels/backend.h"
#include "model/deepseek4/runner.h"

// Engrams of ModelRunner. What a position's hashes look back at is kept as a row of the position before it, so that a
// sequence can stop, resume or go back at any position.
namespace cairn::deepseek4 {

void ModelRunner::reserve_engrams() {
  const EngramConfig& engram = description_.engram;
  if (engram.layers.empty()) return;
  const int64_t back = engram.order - 1;
  first_rows_.reserve(rows_max_);
  looked_back_.resize(rows_max_ * back);
  stored_classes_.resize(rows_max_ * back);
  classes_.resize(int64_t{rows_max_} * engram.order);
  engram_rows_.resize(std::ssize(engram.layers) * rows_max_ * engram.rows_per_token());
  engram_values_.resize(rows_max_ * engram.width());
}

void ModelRunner::find_engrams(const PagePool& pool) {
  const EngramConfig& engram = description_.engram;
  const KvPlace& place = places_.front().classes;
  const int32_t order = engram.order, back = order - 1;
  const std::span<const AttentionSlice> slices = batch_.slices(place.group);
  constexpr int64_t kBytes = sizeof(float);

  first_rows_.clear();
  for (const AttentionSlice& slice : slices) {
    first_rows_.push_back({static_cast<int32_t>(first_rows_.size()), 1, slice.position_begin, slice.pages});
  }
  latent_.load_previous_rows(pool.view(place.group, place.layer), first_rows_, activations_.classes);
  backend_.read(activations_.classes, std::ssize(slices) * back * kBytes, looked_back_.data());

  for (size_t i = 0; i < slices.size(); ++i) {
    const AttentionSlice& slice = slices[i];
    const float* before = looked_back_.data() + static_cast<int64_t>(i) * back;
    for (int32_t row = slice.row_begin; row < slice.row_begin + slice.rows; ++row) {
      int32_t* own = classes_.data() + int64_t{row} * order;
      const int32_t position = slice.position_begin + row - slice.row_begin;
      own[0] = engram.classes[index(tokens_[row])];
      for (int32_t k = 1; k < order; ++k) {
        if (k > position) {
          own[k] = engram.pad_class;
        } else {
          own[k] = row == slice.row_begin ? static_cast<int32_t>(before[k - 1]) : own[k - 1 - order];
        }
      }
      std::copy_n(own, back, stored_classes_.data() + int64_t{row} * back);
    }
  }
  backend_.write(stored_classes_.data(), int64_t{rows_} * back * kBytes, activations_.classes);
  store(place, pool, activations_.classes);

  const int64_t count = engram.rows_per_token();
  for (int32_t layer = 0; std::cmp_less(layer, engram.layers.size()); ++layer) {
    for (int64_t row = 0; row < rows_; ++row) {
      const auto found = std::span(engram_rows_).subspan((int64_t{layer} * rows_max_ + row) * count, count);
      engram_rows(engram, layer, std::span(classes_).subspan(row * order, order), found);
      fetch_engram_rows(*weights_.layers[engram.layers[layer]].engram->table, found);
    }
  }
}

void ModelRunner::add_engram(const LayerConfig& layer, const EngramWeights& weights) {
  const EngramConfig& engram = description_.engram;
  const int64_t count = engram.rows_per_token();
  const auto rows =
      std::span<const int64_t>(engram_rows_).subspan(int64_t{layer.engram} * rows_max_ * count, rows_ * count);
  const auto values = std::span(engram_values_).first(rows_ * engram.width());
  read_engram_rows(*weights.table, engram.row_dim, rows, values);
  backend_.write(values.data(), static_cast<int64_t>(values.size_bytes()), activations_.engram_rows);
  const MatmulTarget keys[] = {weights.key_value.to(activations_.engram_keys)};
  backend_.matmul(keys, activations_.engram_rows, rows_);
  const EngramParams params{description_.streams, description_.norm.epsilon, weights.query_norm.floats(),
                            weights.key_norm.floats()};
  backend_.deepseek41()->add_engram(params, activations_.engram_keys, rows_, description_.embedding,
                                    streams_.streams());
}

}  // namespace cairn::deepseek4
