/// For tests of whole models: a sequence that runs through one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_pool.h"
#include "model/runner.h"

namespace cairn {

/// A sequence in progress, with its pages and its position. Named differently from the engine's, as a test may use
/// both.
class TestSequence {
 public:
  /// `model` is anything with a runner() and its pool().
  explicit TestSequence(auto& model) : runner_(model.runner()), pool_(model.pool()) {}
  ~TestSequence() { pool_.release(pages_); }
  TestSequence(const TestSequence&) = delete;

  int32_t position() const { return position_; }
  model::BatchSlice slice(int32_t row_begin, int32_t rows, model::LogitsWanted logits = model::LogitsWanted::kAll) {
    EXPECT_TRUE(pool_.extend(pages_, position_ + rows));
    const model::BatchSlice slice{SequenceId{}, row_begin, rows, position_, &pages_, logits};
    position_ += rows;
    return slice;
  }
  /// One step of this sequence alone.
  std::vector<float> step(std::span<const TokenId> tokens, model::LogitsWanted logits = model::LogitsWanted::kAll) {
    const model::BatchSlice one = slice(0, static_cast<int32_t>(tokens.size()), logits);
    const auto view = runner_.step({tokens, std::span(&one, 1), &pool_});
    EXPECT_TRUE(view.has_value()) << view.error().text();
    return {view->values.begin(), view->values.end()};
  }
  /// Runs a prompt alone, with the maximum number of rows per step; returns the last row's logits.
  std::vector<float> steps(std::span<const TokenId> tokens) {
    const auto rows = static_cast<size_t>(runner_.batch_tokens_max());
    for (; tokens.size() > rows; tokens = tokens.subspan(rows)) step(tokens.first(rows), model::LogitsWanted::kNone);
    return step(tokens, model::LogitsWanted::kLast);
  }

 private:
  model::Runner& runner_;
  cache::PagePool& pool_;
  cache::PageTable pages_;
  int32_t position_ = 0;
};

inline TokenId largest(std::span<const float> logits) {
  return TokenId{static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
}

}  // namespace cairn
