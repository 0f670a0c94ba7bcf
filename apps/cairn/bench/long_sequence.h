/// One sequence of random tokens, computed by a runner without an engine: for measurements far into a context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/error.h"
#include "cache/page_pool.h"
#include "model/runner.h"

namespace cairn::bench {

/// Its pages are given back when it is destroyed; runner and pool outlive it.
class LongSequence {
 public:
  LongSequence(model::Runner& runner, cache::PagePool& pool) : runner_(runner), pool_(pool) {}
  LongSequence(const LongSequence&) = delete;
  LongSequence& operator=(const LongSequence&) = delete;
  ~LongSequence() { pool_.release(table_); }

  int32_t position() const { return position_; }
  /// Bytes of the pages that hold it.
  int64_t kv_bytes() const;

  /// Computes `rows` more random tokens in one step.
  Result<void> compute(int32_t rows);
  /// Computes random tokens up to a position, in steps of the most rows that the runner takes; returns their number.
  Result<int32_t> compute_to(int32_t position);
  /// Appends a page that is a copy of an earlier one; the position is a multiple of kPageTokens. It is the page
  /// `period` pages back or, if a window has left that behind, the first one that is left.
  Result<void> copy_page(int32_t period);

  /// Computes the most likely token `tokens` times, each from the one before, and returns the seconds of each; `answer`
  /// becomes the tokens. Begins with what was computed last, and then takes everything back: the sequence is as before.
  /// Call it only after compute().
  Result<std::vector<double>> decode(int32_t tokens, std::vector<TokenId>& answer);

 private:
  struct SavedState {
    int32_t group = 0;
    std::vector<std::byte> bytes;
  };
  Result<void> extend(int32_t rows);
  Result<void> step(std::vector<TokenId> tokens);
  std::vector<SavedState> save_states() const;
  void restore_states(const std::vector<SavedState>& states);

  model::Runner& runner_;
  cache::PagePool& pool_;
  cache::PageTable table_;
  int32_t position_ = 0;
  std::mt19937 random_{1};
  std::vector<TokenId> tokens_;
  TokenId next_{};  // after the last row
};

}  // namespace cairn::bench
