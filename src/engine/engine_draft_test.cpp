// A draft model in the engine: what guesses cost is measured, and not held against it for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "engine/engine_lab.h"

namespace cairn {
namespace {

constexpr TokenId kAlways{40};

/// Right in all it proposes. Its first call takes as long as it would to read a prompt.
class SlowOnce final : public Drafter {
 public:
  explicit SlowOnce(std::chrono::milliseconds first) : first_(first) {}
  void propose(std::span<const DraftRequest> requests) override {
    std::this_thread::sleep_for(std::exchange(first_, {}));
    for (const DraftRequest& request : requests) {
      request.proposed->assign(static_cast<size_t>(request.tokens_max), kAlways);
    }
  }
  void forget(SequenceId) override {}

 private:
  std::chrono::milliseconds first_;
};

class EngineDrafts : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(CAIRN_FIXTURES); }
};

TEST_F(EngineDrafts, ADrafterThatWasSlowOnceIsTriedAgain) {
  constexpr int32_t kTokens = 1'200;
  make_runner({.context_tokens = 2'048});
  runner_->set_model([](std::span<const TokenId>, std::span<float> logits) {
    std::ranges::fill(logits, 0.0f);
    logits[static_cast<size_t>(index(kAlways))] = 10;
  });
  runner_->set_on_step([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  const EngineOptions options{.kv_pages = {64, 64}, .running_max = 4, .speculation = {.tokens_max = 4, .ngram_max = 2}};
  auto engine = Engine::create(*runner_, *backend_, *shared_tokenizer, options,
                               std::make_unique<SlowOnce>(std::chrono::milliseconds(50)));
  ASSERT_TRUE(engine.has_value()) << engine.error().text();
  engine_ = std::move(*engine);
  GenerateRequest request = request_of(prompt_of(40), kTokens);
  request.ignore_eos = true;
  const Answer answer = ask(request);
  EXPECT_EQ(answer.tokens, std::vector(kTokens, kAlways));
  const Timings& timings = answer.finish.timings;
  EXPECT_GT(timings.accepted, kTokens / 4);
  EXPECT_EQ(timings.accepted, timings.drafted);
}

}  // namespace
}  // namespace cairn
