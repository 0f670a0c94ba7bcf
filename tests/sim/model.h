/// A model for the simulation: it computes next to nothing, takes virtual time, and detects when a page, window or
/// state that it reads is not the one that it wrote.
///
/// Every position of every group keeps the chained hash of all tokens up to it. Logits are a function of that hash, so
/// that a wrong history gives another answer even where no check looks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "model/runner.h"
#include "tokenizer/tokenizer.h"

namespace cairn::sim {

/// Token ids are below this; all are single bytes or special tokens, so that the tokenizer can be small.
inline constexpr int32_t kVocabulary = 64;

class VirtualClock final : public Clock {
 public:
  std::chrono::nanoseconds now() const override { return now_; }
  void advance(std::chrono::nanoseconds by) { now_ += by; }
  void advance_to(std::chrono::nanoseconds time) { now_ = std::max(now_, time); }

 private:
  std::chrono::nanoseconds now_ = std::chrono::hours(1);
};

/// The time that a step takes.
struct StepCost {
  double flat_ns = 10e6;  ///< time of a step of up to flat_rows rows
  int32_t flat_rows = 4;
  double row_ns = 1e6;  ///< for each further row
  double attended_ns = 100;
  double noise = 0.05;      ///< as a share, in either direction
  int32_t slow_one_in = 0;  ///< on average, steps until another process starts to use the machine; 0: never
  int32_t slow_steps = 20;  ///< steps for which it runs
  double slow_factor = 2;

  /// Duration of a step without noise and other processes.
  double quiet_ns(int32_t rows, int64_t attended) const;
};

struct ModelOptions {
  cache::KvLayout layout;
  int32_t context_tokens = 256;
  int32_t batch_tokens_max = 64;
  int32_t logits_max = 16;
  StepCost cost{};
  uint64_t seed = 0;  ///< seed of the noise
};

/// KV of one position, or a recurrent state.
struct Cell {
  uint64_t hash = 0;
  int32_t token = 0;
  int32_t position = 0;
};
inline cache::KvGroup full_group() { return {cache::KvKind::kFull, 0, {{1, 4, 0}}, 0}; }
inline cache::KvGroup latent_group() { return {cache::KvKind::kLatent, 0, {{1, 4, 0}}, 0}; }
/// `window` is at least 2, as a row reads the one before it.
inline cache::KvGroup window_group(int32_t window) { return {cache::KvKind::kWindow, window, {{1, 4, 0}}, 0}; }
inline cache::KvGroup state_group() { return {cache::KvKind::kState, 0, {}, sizeof(Cell)}; }

/// The answer of a plain loop without engine, batch or pages, up to `tokens_max` tokens of prompt and answer. At most
/// one stop string.
engine::Answer plain_answer(const tokenizer::Tokenizer& tokenizer, const engine::GenerateRequest& request,
                            int32_t tokens_max);

class Model final : public model::Runner {
 public:
  Model(const ModelOptions& options, VirtualClock& clock);

  /// Sets a function that is called in the middle of every step.
  void on_step(std::function<void(const model::Batch&)> hook) { hook_ = std::move(hook); }
  /// Makes the next step fail after it has written its cells.
  enum class Failure { kNone, kError, kNoMemory };
  void fail_next(Failure failure) { failure_ = failure; }
  /// The first problem that was detected; empty if there is none.
  const std::string& problem() const { return problem_; }
  /// Number of steps, including the last one, for which another process has been running; 0: there is none.
  int32_t slow_for() const { return slow_left_ > 0 ? options_.cost.slow_steps - slow_left_ + 1 : 0; }

  Result<model::LogitsView> step(const model::Batch& batch) override;
  Result<void> keep_drafts(const cache::PagePool& pool, const model::BatchSlice& slice, int32_t count) override;
  const cache::KvLayout& kv_layout() const override { return options_.layout; }
  int64_t vocabulary() const override { return kVocabulary; }
  int32_t context_tokens() const override { return options_.context_tokens; }
  int32_t batch_tokens_max() const override { return options_.batch_tokens_max; }
  int32_t logits_max() const override { return options_.logits_max; }

 private:
  double step_ns(const model::Batch& batch);
  uint64_t read_history(const model::Batch& batch, const model::BatchSlice& slice);
  uint64_t read_group(const model::Batch& batch, const model::BatchSlice& slice, int32_t group);
  void write(const model::Batch& batch, const model::BatchSlice& slice, int32_t position, const Cell& cell);
  bool is_state(int32_t group) const;
  std::byte* place(const model::Batch& batch, const model::BatchSlice& slice, int32_t group, int32_t position);
  template <typename... Args>
  void wrong(const model::BatchSlice& slice, fmt::format_string<Args...> format, Args&&... args) {
    if (!problem_.empty()) return;
    problem_ =
        fmt::format("sequence {}, {} rows at position {}: ", index(slice.sequence), slice.rows, slice.position_begin);
    problem_ += fmt::format(format, std::forward<Args>(args)...);
  }

  const ModelOptions options_;
  VirtualClock& clock_;
  std::function<void(const model::Batch&)> hook_;
  Failure failure_ = Failure::kNone;
  std::string problem_;
  std::vector<float> logits_;
  std::vector<Cell> rows_;  // of the last step: states of slices with drafts
  uint64_t steps_ = 0;
  int32_t slow_left_ = 0;
};

}  // namespace cairn::sim
