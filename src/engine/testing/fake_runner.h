/// For the engine's tests: a model whose logits are a hash of everything before them, read back from the KV pages.
/// Every position also keeps a hash of all tokens up to it, so that pages that are lost, mixed up or shared by mistake
/// show.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/testing/fake_pages.h"
#include "model/runner.h"
#include "sampling/random.h"

namespace cairn::engine {

struct FakeRunnerOptions {
  int32_t vocabulary = 320;  ///< more than the tokenizer's 316, as padded models have
  int32_t context_tokens = 256;
  int32_t batch_tokens_max = 64;
  int32_t logits_max = 16;
  bool samples = false;     ///< keeps logits: samples the most likely token of each row, whatever the request says
  bool lends_rows = false;  ///< with samples: rows may be asked for
};

/// Thread: step() is called by the engine's, all else by the test's.
class FakeRunner final : public model::Runner {
 public:
  /// Writes the logits that follow a history of tokens.
  using Model = std::function<void(std::span<const TokenId> history, std::span<float> logits)>;
  struct Slice {
    int64_t sequence;
    int32_t rows, position_begin;
    bool logits;
  };

  explicit FakeRunner(FakeRunnerOptions options = {}) : options_(options), model_(hash_model) {
    layout_.groups.push_back({cache::KvKind::kFull, 0, {cache::KvLayer{1, 1, 1}}});
    layout_.groups.push_back(layout_.groups.front());  // two groups, of which the second is not looked at
    history_.reserve(static_cast<size_t>(options.context_tokens));
    logits_.resize(static_cast<size_t>(options.vocabulary) * static_cast<size_t>(options.logits_max));
  }

  /// Logits between 0 and 6, different after every history.
  static void hash_model(std::span<const TokenId> history, std::span<float> logits) {
    uint64_t hash = history.size();
    for (const TokenId token : history) hash = sampling::mix_bits(hash + static_cast<uint64_t>(index(token)) + 1);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(6 * sampling::uniform(hash, i));
  }

  // -- Before the engine starts.
  void set_model(Model model) { model_ = std::move(model); }
  void set_on_step(std::function<void()> on_step) { on_step_ = std::move(on_step); }

  // -- At any time.
  /// Makes steps wait from now on; `allow` lets a number of them pass.
  void hold() { set_allowed(0); }
  void allow(int64_t steps) {
    const std::lock_guard lock(mutex_);
    allowed_ += steps;
    waiting_ = false;
    changed_.notify_all();
  }
  void release() { set_allowed(-1); }
  /// Waits until a step has reached the gate; then the engine does nothing.
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [this] { return waiting_; }));
  }
  void fail_next(Error error) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(error);
  }
  void fail_next_sample(Error error) {
    const std::lock_guard lock(mutex_);
    sample_failure_ = std::move(error);
  }
  void throw_next() {
    const std::lock_guard lock(mutex_);
    throw_ = true;
  }
  std::vector<std::vector<Slice>> steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }

  Result<model::LogitsView> step(const model::Batch& batch) override {
    if (auto failure = enter(batch)) return std::unexpected(std::move(*failure));
    if (on_step_) on_step_();
    const kernels::KvView kv = batch.pool->view(0, 0);
    size_t row = 0;
    int32_t rows = 0;
    for (const model::BatchSlice& slice : batch.slices) {
      EXPECT_EQ(slice.row_begin, rows);
      rows += slice.rows;
      if (slice.logits != model::LogitsWanted::kNone) {
        EXPECT_LE(row + static_cast<size_t>(slice.logits == model::LogitsWanted::kAll ? slice.rows : 1),
                  static_cast<size_t>(options_.logits_max));
      }
      for (int32_t i = 0; i < slice.rows; ++i) {
        fake_pages::write(kv, slice, slice.position_begin + i, batch.tokens[static_cast<size_t>(slice.row_begin + i)]);
      }
      if (slice.logits == model::LogitsWanted::kNone) continue;
      const size_t vocabulary = static_cast<size_t>(options_.vocabulary);
      for (int32_t i = slice.logits == model::LogitsWanted::kAll ? 0 : slice.rows - 1; i < slice.rows; ++i) {
        const std::span<float> out = std::span(logits_).subspan(row++ * vocabulary, vocabulary);
        fake_pages::read(kv, slice, slice.position_begin + i + 1, history_);
        model_(history_, out);
      }
    }
    EXPECT_EQ(static_cast<size_t>(rows), batch.tokens.size());
    EXPECT_LE(rows, options_.batch_tokens_max);
    EXPECT_LE(row, static_cast<size_t>(options_.logits_max));
    EXPECT_EQ(batch.keep_logits, options_.samples);
    const size_t values = batch.keep_logits ? 0 : row * static_cast<size_t>(options_.vocabulary);
    return model::LogitsView{std::span<const float>(logits_).first(values), options_.vocabulary};
  }
  bool samples_on_device() const override { return options_.samples; }
  Result<void> sample(std::span<const kernels::SampleRequest> samples,
                      std::span<const kernels::LogitChange> /*changes*/,
                      std::span<const kernels::AllowedTokens> /*allowed*/,
                      std::span<kernels::SampleResult> sampled) override {
    const std::lock_guard lock(mutex_);
    if (auto failure = std::exchange(sample_failure_, std::nullopt)) return std::unexpected(std::move(*failure));
    for (size_t i = 0; i < samples.size(); ++i) {
      const std::span<const float> row = kept_row(samples[i].row);
      sampled[i].token = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    }
    return {};
  }
  Result<std::span<const float>> logits_row(int64_t row) override {
    EXPECT_TRUE(options_.lends_rows) << "row " << row << " has left the runner, which samples from all of them";
    return kept_row(row);
  }
  const cache::KvLayout& kv_layout() const override { return layout_; }
  int64_t vocabulary() const override { return options_.vocabulary; }
  int32_t context_tokens() const override { return options_.context_tokens; }
  int32_t batch_tokens_max() const override { return options_.batch_tokens_max; }
  int32_t logits_max() const override { return options_.logits_max; }

 private:
  std::span<const float> kept_row(int64_t row) const {
    const auto vocabulary = static_cast<size_t>(options_.vocabulary);
    return std::span<const float>(logits_).subspan(static_cast<size_t>(row) * vocabulary, vocabulary);
  }

  void set_allowed(int64_t steps) {
    const std::lock_guard lock(mutex_);
    allowed_ = steps;
    waiting_ &= steps == 0;
    changed_.notify_all();
  }

  std::optional<Error> enter(const model::Batch& batch) {
    std::unique_lock lock(mutex_);
    waiting_ = allowed_ == 0;
    changed_.notify_all();
    changed_.wait(lock, [this] { return allowed_ != 0; });
    if (allowed_ > 0) --allowed_;
    std::vector<Slice>& record = steps_.emplace_back();
    for (const model::BatchSlice& slice : batch.slices) {
      record.push_back(
          {index(slice.sequence), slice.rows, slice.position_begin, slice.logits != model::LogitsWanted::kNone});
    }
    if (std::exchange(throw_, false)) throw std::bad_alloc();
    return std::exchange(failure_, std::nullopt);
  }

  const FakeRunnerOptions options_;
  Model model_;
  std::function<void()> on_step_;
  cache::KvLayout layout_;
  std::vector<float> logits_;
  std::vector<TokenId> history_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t allowed_ = -1;  // steps that may still pass; -1: all
  bool waiting_ = false;
  std::optional<Error> failure_;
  std::optional<Error> sample_failure_;
  bool throw_ = false;
  std::vector<std::vector<Slice>> steps_;
};

}  // namespace cairn::engine
