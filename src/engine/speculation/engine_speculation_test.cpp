// Speculation in the engine: the cost of drafts is measured, and an old measurement is forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/testing/test_data.h"
#include "engine/decoding_constraint.h"
#include "engine/engine_core.h"
#include "engine/testing/engine_fixture.h"
#include "engine/testing/ticking_clock.h"

namespace cairn::engine {
namespace {

constexpr TokenId kAlways{40};

/// A drafter whose proposals are all right. Its first call is as slow as if it read a prompt.
class SlowOnce final : public Drafter {
 public:
  SlowOnce(TickingClock& clock, std::chrono::milliseconds first) : clock_(clock), first_(first) {}
  void propose(std::span<const DraftRequest> requests) override {
    clock_.advance(std::exchange(first_, {}));
    for (const DraftRequest& request : requests) {
      request.proposed->assign(static_cast<size_t>(request.tokens_max), kAlways);
    }
  }
  void forget(SequenceId) override {}

 private:
  TickingClock& clock_;
  std::chrono::milliseconds first_;
};

/// A drafter whose proposals are all wrong, for sequences of at least the given number of tokens; others get none.
class WrongFrom final : public Drafter {
 public:
  WrongFrom(size_t tokens, bool writes_pages) : tokens_(tokens), writes_pages_(writes_pages) {}
  void propose(std::span<const DraftRequest> requests) override {
    for (const DraftRequest& request : requests) {
      if (request.tokens.size() < tokens_) continue;
      request.proposed->assign(static_cast<size_t>(request.tokens_max), TokenId{41});
    }
  }
  int32_t rows_written(int32_t tokens) const override { return writes_pages_ ? tokens : 0; }
  void forget(SequenceId) override {}

 private:
  const size_t tokens_;
  const bool writes_pages_;
};

/// Expects the same tokens at any time.
class Expecting final : public DecodingConstraint {
 public:
  explicit Expecting(TokenId token) : expected_(20, token) {}
  void begin(NextTokenRule& next) override { next.expected = expected_; }
  void token(TokenId, std::string_view, NextTokenRule& next) override { next.expected = expected_; }

 private:
  std::vector<TokenId> expected_;
};

class EngineDrafts : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  /// An engine without its thread, over a model that always gives the same token.
  std::unique_ptr<EngineCore> make_core(const EngineOptions& options, std::unique_ptr<Drafter> drafter,
                                        int32_t context_tokens = FakeRunnerOptions{}.context_tokens) {
    make_runner({.context_tokens = context_tokens});
    runner_->set_model([](std::span<const TokenId>, std::span<float> logits) {
      std::ranges::fill(logits, 0.0f);
      logits[static_cast<size_t>(index(kAlways))] = 10;
    });
    cache::PagePool pool = cache::PagePool::create(*backend_, runner_->kv_layout(), options.kv_pages).value();
    return std::make_unique<EngineCore>(*runner_, *shared_tokenizer, options, std::move(pool), std::move(drafter),
                                        clock_);
  }
  static std::shared_ptr<EventChannel> submit(EngineCore& core, GenerateRequest request) {
    request.ignore_eos = true;
    auto channel = std::make_shared<EventChannel>();
    EXPECT_TRUE(core.submit(std::move(request), channel).has_value());
    return channel;
  }
  static void run(EngineCore& core) {
    while (core.iterate() == EngineCore::Iteration::kWorked) continue;
  }
  static void expect_answer(EventChannel& channel, size_t tokens) {
    Answer answer;
    answer.add(channel.drain());
    EXPECT_TRUE(answer.finished);
    EXPECT_EQ(answer.tokens, std::vector(tokens, kAlways));
  }

  TickingClock clock_;
};

// Two sequences and three pages. In the step in which the first needs its second page, the other wants one for its
// first drafts.
TEST_F(EngineDrafts, NoSequenceIsPreemptedForADraft) {
  for (const bool writes_pages : {false, true}) {
    SCOPED_TRACE(writes_pages);
    const EngineOptions options{.kv_pages = {3, 3},
                                .sequences_max = 4,
                                .prefill_chunk_max = 64,
                                .prefix_cache = false,
                                .speculation = {.tokens_max = 4}};
    const auto core = make_core(options, std::make_unique<WrongFrom>(29, writes_pages));
    submit(*core, request_of(prompt_of(90), 1));  // so that rows are known to be cheap, and prompts are read at once
    run(*core);
    GenerateRequest first = request_of(prompt_of(29), 8), other = request_of(prompt_of(25), 20);
    first.speculate = false;
    other.priority = Priority::kBatch;
    const auto first_channel = submit(*core, first), other_channel = submit(*core, other);
    core->iterate();
    ASSERT_EQ(core->running().size(), 2U);
    for (const auto& sequence : core->running()) {
      ASSERT_EQ(sequence->memory().computed, sequence->drafts().speculates() ? 25 : 29);
    }
    run(*core);
    EXPECT_EQ(core->stats().preemptions, 0);
    EXPECT_GT(core->stats().drafted_tokens, 0);
    expect_answer(*first_channel, 8);
    expect_answer(*other_channel, 20);
  }
}

TEST_F(EngineDrafts, ADrafterThatWasSlowOnceIsTriedAgain) {
  constexpr int32_t kTokens = 1'200;
  const EngineOptions options{
      .kv_pages = {64, 64}, .sequences_max = 4, .speculation = {.tokens_max = 4, .ngram_max = 2}};
  const auto core = make_core(options, std::make_unique<SlowOnce>(clock_, std::chrono::milliseconds(500)), 2'048);
  runner_->set_on_step([this] { clock_.advance(std::chrono::milliseconds(20)); });
  const auto channel = submit(*core, request_of(prompt_of(40), kTokens));
  Answer answer;
  while (core->iterate() == EngineCore::Iteration::kWorked) answer.add(channel->drain());
  answer.add(channel->drain());
  EXPECT_EQ(answer.tokens, std::vector(kTokens, kAlways));
  const Timings& timings = answer.finish.timings;
  EXPECT_GT(timings.accepted, kTokens / 4);
  EXPECT_EQ(timings.accepted, timings.drafted);
}

// Without a drafter: the tokens that a constraint expects are drafted as long as they are right.
TEST_F(EngineDrafts, WhatAConstraintExpectsSavesStepsWhereItIsRight) {
  constexpr int32_t kTokens = 200;
  for (const auto& [expected, speculates] : {std::pair(kAlways, true), {kAlways, false}, {TokenId{41}, true}}) {
    const auto core = make_core({.kv_pages = {64, 64}, .sequences_max = 4}, nullptr, 2'048);
    runner_->set_on_step([this] { clock_.advance(std::chrono::milliseconds(20)); });
    GenerateRequest request = request_of(prompt_of(40), kTokens);
    request.speculate = speculates;
    request.constraint = std::make_shared<Expecting>(expected);
    const auto channel = submit(*core, std::move(request));
    Answer answer;
    while (core->iterate() == EngineCore::Iteration::kWorked) answer.add(channel->drain());
    answer.add(channel->drain());
    EXPECT_EQ(answer.tokens, std::vector(kTokens, kAlways));
    const Timings& timings = answer.finish.timings;
    if (!speculates) {
      EXPECT_EQ(timings.drafted, 0);
    } else if (expected == kAlways) {
      EXPECT_EQ(timings.accepted, timings.drafted);
      EXPECT_LT(core->stats().steps, kTokens / 2);
    } else {
      EXPECT_EQ(timings.accepted, 0);
      EXPECT_LT(timings.drafted, 2 * kTokens);  // of eight for each
    }
  }
}

}  // namespace
}  // namespace cairn::engine
