/// For the engine's tests: an engine over the fake model with a real tokenizer, and the expected answers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "engine/engine.h"
#include "engine/testing/collected_response.h"
#include "engine/testing/fake_runner.h"
#include "kernels/cpu/cpu_backend.h"
#include "tokenizer/detokenizer.h"

namespace cairn::engine {

class EngineTest : public testing::Test {
 protected:
  /// To be called in SetUpTestSuite, with test_data().
  static void load_tokenizer(const std::string& fixtures) {
    auto file = gguf::Reader::open(fixtures + "/models/llama.gguf");
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto loaded = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(loaded.has_value()) << loaded.error().text();
    shared_tokenizer = std::move(*loaded);
  }
  static void TearDownTestSuite() { shared_tokenizer.reset(); }

  void SetUp() override {
    auto backend = kernels::make_cpu_backend({.threads = 1, .isa = "generic"});
    ASSERT_TRUE(backend.has_value()) << backend.error().text();
    backend_ = std::move(*backend);
    make_runner({});
  }
  void make_runner(const FakeRunnerOptions& options) {
    runner_options_ = options;
    runner_ = std::make_unique<FakeRunner>(options);
  }
  void start(EngineOptions options = {
                 .kv_pages = {64, 64}, .queue_max = 256, .sequences_max = 16, .prefill_chunk_max = 24}) {
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
  /// Random token ids, from a generator with its own seed.
  static std::vector<TokenId> prompt_of(size_t tokens, uint64_t seed = 0) {
    std::vector<TokenId> prompt(tokens);
    for (size_t i = 0; i < tokens; ++i)
      prompt[i] = TokenId{static_cast<int32_t>(sampling::mix_bits(seed * 1'000 + i) % 300)};
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
  /// Steps of the sampler that keep something of the tokens before, or need random numbers of their own.
  static void add_steps(sampling::SamplingParams& sampling, size_t which) {
    if (which % 5 == 1) sampling.dry = {.multiplier = 1, .allowed_length = 1};
    if (which % 5 == 2) sampling.mirostat = 2;
    if (which % 5 == 3) sampling.xtc_probability = 0.5f, sampling.xtc_threshold = 0.01f, sampling.top_n_sigma = 2;
    if (which % 5 == 4) sampling.dynatemp_range = 0.5f, sampling.min_keep = 3;
  }
  /// A model that answers a prompt of `prompt_tokens` with these tokens and then endlessly with `last`.
  static FakeRunner::Model script(size_t prompt_tokens, const std::vector<TokenId>& answer, TokenId last) {
    return [=](std::span<const TokenId> history, std::span<float> logits) {
      std::fill(logits.begin(), logits.end(), 0.0f);
      const size_t i = history.size() - prompt_tokens;
      logits[static_cast<size_t>(index(i < answer.size() ? answer[i] : last))] = 10;
    };
  }

  /// The expected answer, by a plain loop: one sequence, one token at a time, stop strings searched in the whole text
  /// at the end.
  Answer reference(const GenerateRequest& request) {
    Answer answer;
    std::vector<TokenId> history = request.prompt;
    std::vector<float> logits(static_cast<size_t>(runner_options_.vocabulary));
    sampling::Sampler sampler(request.sampling, runner_options_.vocabulary, request.prompt, nullptr,
                              shared_tokenizer.get());
    const size_t context = static_cast<size_t>(runner_options_.context_tokens);
    const size_t room = request.max_tokens < 0 ? context : static_cast<size_t>(request.max_tokens);
    answer.finish.reason = FinishReason::kLength;
    while (history.size() < context && answer.tokens.size() < room) {
      FakeRunner::hash_model(history, logits);
      const TokenId token = sampler.sample(logits).token;
      ++answer.finish.usage.completion_tokens;
      if (!request.ignore_eos && index(token) < shared_tokenizer->size() && shared_tokenizer->ends_generation(token)) {
        answer.finish.reason = FinishReason::kStop;
        break;
      }
      history.push_back(token);
      answer.tokens.push_back(token);
      if (cut_at_stop(answer, request, false)) return answer;
    }
    cut_at_stop(answer, request, true);
    return answer;
  }

  /// Sets the answer's text, up to the stop string if there is one. An incomplete character is not text yet, unless
  /// this is the end.
  static bool cut_at_stop(Answer& answer, const GenerateRequest& request, bool at_end) {
    tokenizer::Detokenizer detokenizer(*shared_tokenizer, request.text_at_start, request.render_special);
    answer.text.clear();
    for (const TokenId token : answer.tokens) answer.text += detokenizer.push(token);
    if (at_end) answer.text += detokenizer.flush();
    for (const std::string& stop : request.stop) {
      const size_t at = answer.text.find(stop);
      if (at == std::string::npos) continue;
      answer.text.resize(at);
      answer.finish.reason = FinishReason::kStop;
      answer.finish.stop = stop;
      return true;
    }
    return false;
  }

  void expect_same(const Answer& actual, const Answer& expected, const std::string& what) {
    EXPECT_EQ(actual.tokens, expected.tokens) << what;
    EXPECT_EQ(actual.text, expected.text) << what;
    EXPECT_EQ(actual.finish.reason, expected.finish.reason) << what;
    EXPECT_EQ(actual.finish.stop, expected.finish.stop) << what;
    EXPECT_EQ(actual.finish.usage.completion_tokens, expected.finish.usage.completion_tokens) << what;
    for (const std::string& part : actual.parts) EXPECT_TRUE(utf8_valid(part)) << what;
  }

  /// Expects that no request runs and that only the prefix cache uses pages. A finish is visible only after that holds.
  void expect_idle() {
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.active_requests, 0);
    EXPECT_EQ(stats.waiting_requests, 0);
    EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  }
  /// Waits for cancelled requests whose streams are gone, so that there is no finish to wait for.
  void wait_until_idle() {
    for (int i = 0; i < 2'000; ++i) {
      const EngineStats stats = engine_->stats();
      if (stats.active_requests == 0 && stats.waiting_requests == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    expect_idle();
  }

  inline static std::unique_ptr<tokenizer::Tokenizer> shared_tokenizer;
  FakeRunnerOptions runner_options_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<FakeRunner> runner_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace cairn::engine
