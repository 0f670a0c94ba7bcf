/// Tokens of a step's rows of logits that the runner draws itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "model/runner.h"

namespace cairn {

/// Thread: the engine's.
class RowDraws {
 public:
  /// For as many draws; what changes of logits take is kept from step to step.
  void reserve(int32_t rows_max) {
    draws_.reserve(static_cast<size_t>(rows_max));
    drawn_.reserve(static_cast<size_t>(rows_max));
  }
  /// For a step, or another part of one.
  void begin() {
    draws_.clear();
    changes_.clear();
  }
  /// Of a row behind those before. Its changes are in changes() already.
  void add(const Draw& draw) { draws_.push_back(draw); }
  std::vector<LogitChange>& changes() { return changes_; }
  /// Makes the draws. Errors: Runner::draw's.
  Result<void> run(Runner& runner) {
    drawn_.resize(draws_.size());
    return runner.draw(draws_, changes_, drawn_);
  }
  /// Of a row; null if there is no draw from it.
  const Drawn* of(int64_t row) const;

 private:
  std::vector<Draw> draws_;
  std::vector<LogitChange> changes_;
  std::vector<Drawn> drawn_;
};

}  // namespace cairn
