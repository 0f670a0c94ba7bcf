/// For the engine's tests: an engine over the fake model with a real tokenizer, and what it ought to answer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_runner.h"

namespace cairn {

/// Everything a stream gave.
struct Answer {
  std::vector<TokenId> tokens;
  std::string text;  ///< with the finish's
  std::vector<std::string> parts;
  Finish finish;
  bool finished = false;

  void add(Events&& events) {
    for (TokenEvent& event : events.tokens) {
      tokens.push_back(event.token);
      text += event.text;
      parts.push_back(std::move(event.text));
    }
    EXPECT_FALSE(finished && (events.finished || !events.tokens.empty()));
    if (!events.finished) return;
    finished = true;
    text += events.finish.text;
    finish = std::move(events.finish);
  }
};

/// To the end of the answer.
inline void collect(GenerateStream& stream, Answer& answer) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!answer.finished && std::chrono::steady_clock::now() < deadline) {
    answer.add(stream.wait(std::chrono::milliseconds(500)));
  }
  EXPECT_TRUE(answer.finished);
}
inline Answer collect(GenerateStream& stream) {
  Answer answer;
  collect(stream, answer);
  return answer;
}

/// Takes what comes until `count` tokens are there.
inline void collect_tokens(GenerateStream& stream, size_t count, Answer& answer) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (answer.tokens.size() < count && std::chrono::steady_clock::now() < deadline) {
    answer.add(stream.wait(std::chrono::milliseconds(500)));
  }
  EXPECT_GE(answer.tokens.size(), count);
}

class EngineTest : public testing::Test {
 protected:
  /// For SetUpTestSuite, with CAIRN_FIXTURES.
  static void load_tokenizer(const std::string& fixtures) {
    auto file = gguf::Reader::open(fixtures + "/models/llama.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto loaded = Tokenizer::load(file->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    shared_tokenizer = std::move(*loaded);
  }
  static void TearDownTestSuite() { shared_tokenizer.reset(); }

  void SetUp() override {
    auto backend = make_cpu_backend({.threads = 1, .isa = "generic"});
    ASSERT_TRUE(backend.has_value()) << backend.error().text();
    backend_ = std::move(*backend);
    make_runner({});
  }
  void make_runner(const FakeRunnerOptions& options) {
    runner_options_ = options;
    runner_ = std::make_unique<FakeRunner>(options);
  }
  void start(EngineOptions options = {.kv_pages = 64, .queue_max = 256, .running_max = 16, .chunk_rows_max = 24}) {
    auto engine = Engine::create(*runner_, *backend_, *shared_tokenizer, options);
    ASSERT_TRUE(engine.has_value()) << engine.error().text();
    engine_ = std::move(*engine);
  }
  std::unique_ptr<GenerateStream> submit(GenerateRequest request) {
    auto stream = engine_->submit(std::move(request));
    EXPECT_TRUE(stream.has_value()) << stream.error().text();
    return stream.has_value() ? std::move(*stream) : nullptr;
  }
  Answer ask(GenerateRequest request) {
    const auto stream = submit(std::move(request));
    return collect(*stream);
  }
  Error refused(GenerateRequest request) {
    auto stream = engine_->submit(std::move(request));
    EXPECT_FALSE(stream.has_value());
    return stream.has_value() ? Error{} : stream.error();
  }

  static std::vector<TokenId> encode(const std::string& text) { return shared_tokenizer->encode(text, {}).value(); }
  /// Token ids from a generator of their own.
  static std::vector<TokenId> prompt_of(size_t tokens, uint64_t seed = 0) {
    std::vector<TokenId> prompt(tokens);
    for (size_t i = 0; i < tokens; ++i) prompt[i] = TokenId{static_cast<int32_t>(mix_bits(seed * 1'000 + i) % 300)};
    return prompt;
  }
  static GenerateRequest request_of(std::vector<TokenId> prompt, int32_t max_tokens, float temperature = 0,
                                    uint64_t seed = 0) {
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    return request;
  }
  /// A model that answers a prompt of `prompt_tokens` with these tokens and then `last` for ever.
  static FakeRunner::Model script(size_t prompt_tokens, const std::vector<TokenId>& answer, TokenId last) {
    return [=](std::span<const TokenId> history, std::span<float> logits) {
      std::fill(logits.begin(), logits.end(), 0.0f);
      const size_t i = history.size() - prompt_tokens;
      logits[static_cast<size_t>(index(i < answer.size() ? answer[i] : last))] = 10;
    };
  }

  /// Nothing is running and no page is in use. Finishes are seen only when that is so.
  void expect_idle() {
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.active_requests, 0);
    EXPECT_EQ(stats.waiting_requests, 0);
    EXPECT_EQ(stats.pages_free, stats.pages_total);
  }
  /// For cancelled requests whose stream is gone, so that no finish can be waited for.
  void wait_until_idle() {
    for (int i = 0; i < 2'000; ++i) {
      const EngineStats stats = engine_->stats();
      if (stats.active_requests == 0 && stats.waiting_requests == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expect_idle();
  }

  inline static std::unique_ptr<Tokenizer> shared_tokenizer;
  FakeRunnerOptions runner_options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<FakeRunner> runner_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace cairn
