// The log-probabilities of a prompt's own tokens, and requests that ask for no token of an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/testing/test_data.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

class PromptScores : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  // The expected scores come from a plain loop over the model.
  void expect_scores(const Answer& answer, const GenerateRequest& request, const std::string& what) {
    ASSERT_EQ(answer.prompt.size(), request.prompt_logprobs ? request.prompt.size() : 0) << what;
    std::vector<float> logits(static_cast<size_t>(runner_options_.vocabulary));
    for (size_t i = 0; i < answer.prompt.size(); ++i) {
      const PromptScore& score = answer.prompt[i];
      ASSERT_EQ(score.token, request.prompt[i]) << what << ", token " << i;
      if (i == 0) {
        EXPECT_EQ(score.rank, 0) << what;
        EXPECT_TRUE(score.top.empty()) << what;
        continue;
      }
      FakeRunner::hash_model(std::span(request.prompt).first(i), logits);
      const double sum = std::accumulate(logits.begin(), logits.end(), 0.0,
                                         [](double so_far, float logit) { return so_far + std::exp(double{logit}); });
      const float own = logits[static_cast<size_t>(index(score.token))];
      EXPECT_NEAR(score.logprob, own - std::log(sum), 1e-5) << what << ", token " << i;
      EXPECT_EQ(score.rank, 1 + std::ranges::count_if(logits, [own](float logit) { return logit > own; })) << what;
      std::ranges::sort(logits, std::greater());
      ASSERT_EQ(score.top.size(), static_cast<size_t>(*request.prompt_logprobs)) << what;
      for (size_t place = 0; place < score.top.size(); ++place)
        EXPECT_NEAR(score.top[place].logprob, logits[place] - std::log(sum), 1e-5) << what << ", place " << place;
    }
  }

  static std::vector<GenerateRequest> mixed_requests() {
    std::vector<GenerateRequest> requests;
    const size_t lengths[] = {1, 2, 24, 33, 64, 100, 200};
    for (uint64_t i = 0; i < 14; ++i) {
      GenerateRequest request = request_of(prompt_of(lengths[i % 7], i), static_cast<int32_t>(i % 4) * 8);
      request.ignore_eos = true;
      if (i % 3 != 2) request.prompt_logprobs = static_cast<int32_t>(i % 5);
      requests.push_back(std::move(request));
    }
    return requests;
  }

  void expect_all_scored(int32_t chunk) {
    runner_->hold();
    start({.kv_pages = {96, 96}, .queue_max = 64, .sequences_max = 12, .prefill_chunk_max = chunk});
    const std::vector<GenerateRequest> requests = mixed_requests();
    std::vector<std::unique_ptr<GenerateStream>> streams;
    for (const GenerateRequest& request : requests) streams.push_back(submit(request));
    runner_->release();
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::string what = "request " + std::to_string(i) + ", chunk " + std::to_string(chunk);
      const Answer answer = collect(*streams[i]);
      expect_scores(answer, requests[i], what);
      expect_same(answer, reference(requests[i]), what);
    }
    expect_idle();
  }
};

TEST_F(PromptScores, AreThoseOfThePromptAloneHoweverItIsCutAndWhateverRunsBesideIt) {
  for (const int32_t chunk : {1, 7, 24, 1'000}) {
    make_runner({});
    expect_all_scored(chunk);
  }
}

TEST_F(PromptScores, AreTheSameWhereTheDeviceSamples) {
  make_runner({.samples = true, .lends_rows = true});
  expect_all_scored(24);
}

TEST_F(PromptScores, SurviveAPreemption) {
  make_runner({});
  runner_->hold();
  start({.kv_pages = {8, 8}, .queue_max = 32, .sequences_max = 12, .prefill_chunk_max = 40});
  std::vector<GenerateRequest> requests;
  std::vector<std::unique_ptr<GenerateStream>> streams;
  for (uint64_t i = 0; i < 12; ++i) {
    GenerateRequest request = request_of(prompt_of(5 + i * 10, i), 100);
    request.ignore_eos = true;
    request.prompt_logprobs = 2;
    request.priority = i % 3 == 0 ? Priority::kBatch : Priority::kInteractive;
    requests.push_back(std::move(request));
    streams.push_back(submit(requests.back()));
  }
  runner_->release();
  int32_t preemptions = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    const Answer answer = collect(*streams[i]);
    expect_scores(answer, requests[i], "request " + std::to_string(i));
    expect_same(answer, reference(requests[i]), "request " + std::to_string(i));
    preemptions += answer.finish.timings.preemptions;
  }
  EXPECT_GT(preemptions, 3);
}

TEST_F(PromptScores, WriteThePrefixCacheAndDoNotReadIt) {
  start();
  GenerateRequest request = request_of(prompt_of(100), 3);
  request.prompt_logprobs = 1;
  for (int round = 0; round < 2; ++round) {
    const Answer answer = ask(request);
    EXPECT_EQ(answer.finish.usage.cached_tokens, 0);
    expect_scores(answer, request, "round " + std::to_string(round));
  }
  EXPECT_GT(ask(request_of(prompt_of(100), 3)).finish.usage.cached_tokens, 0);
}

TEST_F(PromptScores, NoTokenOfAnAnswerIsANumber) {
  make_runner({.context_tokens = 100});
  start();
  GenerateRequest request = request_of(prompt_of(100), 0);
  request.prompt_logprobs = 0;
  const Answer answer = ask(request);
  expect_scores(answer, request, "a prompt that fills the context");
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(answer.finish.usage.prompt_tokens, 100);
  EXPECT_EQ(answer.finish.usage.completion_tokens, 0);
  EXPECT_GT(ask(request_of(prompt_of(99), 1)).finish.usage.cached_tokens, 0);
  EXPECT_EQ(refused(request_of(prompt_of(101), 0)).code, Code::kContextLengthExceeded);
  EXPECT_EQ(refused(request_of(prompt_of(100), 1)).code, Code::kContextLengthExceeded);
}

TEST_F(PromptScores, MoreThanTheLimitAreRefused) {
  make_runner({.context_tokens = 2'048});
  start({.kv_pages = {80, 80}, .queue_max = 4, .sequences_max = 4, .prefill_chunk_max = 64});
  GenerateRequest request = request_of(prompt_of(2'000), 1);
  request.prompt_logprobs = 1'000;
  const Error error = refused(request);
  EXPECT_EQ(error.at, "prompt_logprobs");
  EXPECT_NE(error.message.find("2002000 log-probabilities; at most 1048576"), std::string::npos) << error.message;
  request.prompt_logprobs = 1'001;
  EXPECT_EQ(refused(request).message, "prompt_logprobs must be from 0 to 1000, not 1001");
}

TEST_F(PromptScores, GiveTheRowsOfLogitsThemselves) {
  start();
  const size_t vocabulary = static_cast<size_t>(runner_options_.vocabulary);
  std::vector<float> expected(vocabulary);
  for (const size_t length : {1, 2, 33, 200}) {
    for (const LogitsKept kept : {LogitsKept::kLast, LogitsKept::kAll, LogitsKept::kLast}) {
      GenerateRequest request = request_of(prompt_of(length), 0);
      request.logits = kept;
      const Answer answer = ask(request);
      const std::vector<float>& logits = answer.finish.logits;
      const size_t rows = kept == LogitsKept::kAll ? length : 1;
      ASSERT_EQ(logits.size(), rows * vocabulary) << length;
      EXPECT_TRUE(answer.prompt.empty()) << "nobody has asked for scores";
      for (size_t row = 0; row < rows; ++row) {
        FakeRunner::hash_model(std::span(request.prompt).first(length - rows + row + 1), expected);
        EXPECT_TRUE(std::ranges::equal(expected, std::span(logits).subspan(row * vocabulary, vocabulary)))
            << length << " tokens, row " << row;
      }
    }
  }
}

TEST_F(PromptScores, LogitsAreOfPromptsAloneAndNotTooMany) {
  start();
  GenerateRequest request = request_of(prompt_of(10), 1);
  EXPECT_TRUE(ask(request).finish.logits.empty());
  request.logits = LogitsKept::kLast;
  EXPECT_EQ(refused(request).message, "max_tokens must be 0 of a request for logits, not 1");
}

}  // namespace
}  // namespace cairn::engine
