// Tokens and text of the engine's answers. How requests end and fail is in engine_end_test.cpp.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/testing/test_data.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

class EngineAnswers : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  static std::vector<GenerateRequest> mixed_requests() {
    std::vector<GenerateRequest> requests;
    const size_t lengths[] = {1, 2, 24, 25, 31, 32, 33, 63, 100, 200};
    for (size_t i = 0; i < 20; ++i) {
      GenerateRequest request = request_of(prompt_of(lengths[i % 10], i), 40, i % 3 == 0 ? 0.0f : 0.9f, i);
      if (i % 4 == 1) request.sampling.top_k = 20;
      if (i % 4 == 2) request.sampling.repetition_penalty = 1.3f;
      if (i % 4 == 3) request.sampling.top_p = 0.8f;
      if (i % 5 == 0) request.ignore_eos = true;
      add_steps(request.sampling, i);
      if (i % 7 == 0) request.render_special = true;
      if (i % 6 == 0) request.max_tokens = -1;
      requests.push_back(std::move(request));
    }
    return requests;
  }
};

TEST_F(EngineAnswers, RequestsOneAtATimeGetTheTokensOfAPlainLoop) {
  start();
  const std::vector<GenerateRequest> requests = mixed_requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    expect_same(ask(requests[i]), reference(requests[i]), "request " + std::to_string(i));
    expect_idle();
  }
}

TEST_F(EngineAnswers, RequestsAtTheSameTimeGetTheSameBytesAsAlone) {
  for (const int32_t chunk : {1, 7, 24, 1'000}) {
    make_runner({});
    // Steps wait until all requests are in, so that they run side by side.
    runner_->hold();
    start({.kv_pages = {96, 96}, .queue_max = 64, .sequences_max = 12, .prefill_chunk_max = chunk});
    const std::vector<GenerateRequest> requests = mixed_requests();
    std::vector<std::unique_ptr<GenerateStream>> streams;
    streams.reserve(requests.size());
    for (const GenerateRequest& request : requests) streams.push_back(submit(request));
    runner_->release();
    for (size_t i = 0; i < requests.size(); ++i) {
      expect_same(collect(*streams[i]), reference(requests[i]),
                  "request " + std::to_string(i) + ", chunk " + std::to_string(chunk));
    }
    expect_idle();
    size_t most = 0;
    for (const auto& step : runner_->steps()) most = std::max(most, step.size());
    EXPECT_GE(most, chunk == 1 ? 4u : 10u);  // the last requests have not read their prompts yet
  }
}

TEST_F(EngineAnswers, StopStringsFromRandomTextCutWhereThePlainLoopCuts) {
  start();
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    GenerateRequest request = request_of(prompt_of(5, 100 + static_cast<uint64_t>(round)), 40, 0.7f);
    // Stop strings are cut from the model's own answer, so that most are found: whole characters, across tokens.
    const std::string text = reference(request).text;
    size_t begin = random() % (text.size() / 2);
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    size_t end = begin + 1 + random() % 12;
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    request.stop = {text.substr(begin, end - begin)};
    const Answer answer = ask(request);
    expect_same(answer, reference(request), "round " + std::to_string(round) + " of seed 1");
    EXPECT_EQ(answer.finish.stop, request.stop[0]);
  }
}

TEST_F(EngineAnswers, AStopStringIsFoundHoweverTheTextIsCutIntoTokens) {
  // One token per byte, and as the tokenizer cuts it; both answers must end before the stop string and hold nothing
  // else back.
  std::vector<TokenId> bytes;
  const std::string text = "the end of the line\nUser: more";
  for (const char byte : text) bytes.push_back(encode(std::string(1, byte)).at(0));
  for (const std::vector<TokenId>& answer : {bytes, encode(text)}) {
    make_runner({});
    runner_->set_model(script(3, answer, answer.back()));
    start();
    GenerateRequest request = request_of(prompt_of(3), 100);
    request.stop = {"\nUser:", "nothing of the kind"};
    const Answer got = ask(request);
    EXPECT_EQ(got.text, "the end of the line");
    EXPECT_EQ(got.finish.stop, "\nUser:");
    EXPECT_EQ(got.finish.reason, FinishReason::kStop);
    EXPECT_EQ(got.finish.text, "");
    EXPECT_LT(got.tokens.size(), answer.size());

    // The beginning of a stop string at the end of the answer belongs to the answer.
    const size_t until_colon = got.tokens.size() - 1;
    request.max_tokens = static_cast<int32_t>(until_colon);
    const Answer cut = ask(request);
    EXPECT_EQ(cut.finish.reason, FinishReason::kLength);
    EXPECT_EQ(cut.text.substr(0, 20), "the end of the line\n");
    EXPECT_EQ(cut.finish.text.front(), '\n');
  }
}

TEST_F(EngineAnswers, TheEndTokenIsCountedButHasNoEventAndNoText) {
  const TokenId eos = shared_tokenizer->special().eos;
  ASSERT_NE(eos, kNoToken);
  runner_->set_model(script(3, encode("yes"), eos));
  start();
  const size_t tokens = encode("yes").size();
  GenerateRequest request = request_of(prompt_of(3), 50);
  request.render_special = true;
  const Answer answer = ask(request);
  EXPECT_EQ(answer.text, "yes");
  EXPECT_EQ(answer.tokens.size(), tokens);
  EXPECT_EQ(answer.finish.reason, FinishReason::kStop);
  EXPECT_EQ(answer.finish.stop, "");
  EXPECT_EQ(answer.finish.usage.completion_tokens, static_cast<int32_t>(tokens) + 1);
  EXPECT_EQ(answer.finish.usage.prompt_tokens, 3);

  request.ignore_eos = true;
  const Answer longer = ask(request);
  EXPECT_EQ(longer.tokens.size(), 50u);
  EXPECT_EQ(longer.tokens.back(), eos);
  EXPECT_TRUE(longer.text.starts_with("yes" + std::string(shared_tokenizer->piece(eos, true))));
  EXPECT_EQ(longer.finish.reason, FinishReason::kLength);
  EXPECT_EQ(longer.finish.usage.completion_tokens, 50);
}

TEST_F(EngineAnswers, AnIncompleteCharacterAtTheEndBecomesAReplacementCharacter) {
  std::vector<TokenId> answer = encode("\xE2\x82\xAC");
  if (answer.size() > 2) answer.resize(2);
  runner_->set_model(script(3, answer, shared_tokenizer->special().eos));
  start();
  const Answer got = ask(request_of(prompt_of(3), 50));
  EXPECT_EQ(got.text, "\xEF\xBF\xBD");
  EXPECT_EQ(got.finish.text, "\xEF\xBF\xBD");
  EXPECT_EQ(got.finish.reason, FinishReason::kStop);

  GenerateRequest request = request_of(prompt_of(3), 50);
  request.stop = {"\xEF\xBF\xBD"};
  const Answer stopped = ask(request);
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.finish.stop, request.stop[0]);
}

TEST_F(EngineAnswers, AnswersEndAtMaxTokensOrAtTheEndOfTheContext) {
  start();
  GenerateRequest request = request_of(prompt_of(250), 4);
  request.ignore_eos = true;
  EXPECT_EQ(ask(request).tokens.size(), 4u);
  for (const int32_t max_tokens : {-1, 7, 1'000, std::numeric_limits<int32_t>::max()}) {
    request.max_tokens = max_tokens;
    const Answer answer = ask(request);
    EXPECT_EQ(answer.tokens.size(), 6u) << max_tokens;
    EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
    EXPECT_EQ(answer.finish.usage.completion_tokens, 6);
  }
  request.prompt = prompt_of(255);
  EXPECT_EQ(ask(request).tokens.size(), 1u);
}

TEST_F(EngineAnswers, LogprobsArriveWithTheirTokens) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 5, 1.0f, 3);
  request.sampling.logprobs = true;
  request.sampling.top_logprobs = 4;
  const auto stream = submit(request);
  std::vector<TokenId> history = request.prompt;
  std::vector<float> logits(static_cast<size_t>(runner_options_.vocabulary));
  int tokens = 0;
  for (bool finished = false; !finished;) {
    Events events = stream->wait(std::chrono::seconds(20));
    finished = events.finished;
    for (const TokenEvent& event : events.tokens) {
      ++tokens;
      FakeRunner::hash_model(history, logits);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      EXPECT_NEAR(event.logprob, logits[static_cast<size_t>(index(event.token))] - std::log(sum), 1e-5);
      ASSERT_EQ(event.top.size(), 4u);
      EXPECT_NEAR(event.top[0].logprob, *std::max_element(logits.begin(), logits.end()) - std::log(sum), 1e-5);
      history.push_back(event.token);
    }
  }
  EXPECT_EQ(tokens, 5);
}

TEST_F(EngineAnswers, LogitsThatAreAllNanEndTheRequestWithAnError) {
  runner_->set_model([](std::span<const TokenId> history, std::span<float> logits) {
    std::fill(logits.begin(), logits.end(), std::numeric_limits<float>::quiet_NaN());
    if (history.size() < 6) logits[40] = 1;
  });
  start();
  const Answer answer = ask(request_of(prompt_of(4), 50));
  EXPECT_EQ(answer.tokens.size(), 2u);
  EXPECT_EQ(answer.finish.reason, FinishReason::kError);
  EXPECT_EQ(answer.finish.error.code, Code::kInternal);
  EXPECT_NE(answer.finish.error.message.find("NaN"), std::string::npos);
  EXPECT_EQ(answer.finish.usage.completion_tokens, 2);
  expect_idle();
}

TEST_F(EngineAnswers, EveryStepHasTheDecodeRowsWhileALongPromptIsRead) {
  start({.kv_pages = {64, 64}, .queue_max = 8, .sequences_max = 8, .prefill_chunk_max = 15});
  GenerateRequest talker = request_of(prompt_of(3), 200, 1.0f);
  talker.ignore_eos = true;
  // Steps are held from the start, so that the stream is still decoding when the long prompt comes.
  runner_->hold();
  const auto talking = submit(talker);
  runner_->allow(2);
  Answer talk;
  collect_tokens(*talking, 1, talk);
  runner_->wait_until_held();
  const size_t before = runner_->steps().size();
  const auto reading = submit(request_of(prompt_of(195), 1));
  runner_->allow(60);
  collect(*reading);
  const auto steps = runner_->steps();
  int32_t prompt_rows = 0;
  // The first of these steps was already planned when the long prompt came.
  for (size_t i = before + 1; i < steps.size() && prompt_rows < 195; ++i) {
    ASSERT_EQ(steps[i].size(), 2u);
    EXPECT_EQ(steps[i][0].sequence, 0);
    EXPECT_EQ(steps[i][0].rows, 1);
    EXPECT_LE(steps[i][1].rows, 15);
    prompt_rows += steps[i][1].rows;
    EXPECT_EQ(steps[i][1].logits, prompt_rows == 195);
  }
  EXPECT_EQ(prompt_rows, 195);
  runner_->release();
}

TEST_F(EngineAnswers, ARunnerWithFewLogitRowsServesAllRequestsInTurn) {
  make_runner({.batch_tokens_max = 5, .logits_max = 2});
  start({.kv_pages = {64, 64}, .queue_max = 64, .sequences_max = 50, .prefill_chunk_max = 100});
  std::vector<std::unique_ptr<GenerateStream>> streams;
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 7; ++i) {
    requests.push_back(request_of(prompt_of(11 + i, i), 9, 0.8f, i));
    streams.push_back(submit(requests.back()));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    expect_same(collect(*streams[i]), reference(requests[i]), "request " + std::to_string(i));
  }
  for (const auto& step : runner_->steps()) EXPECT_LE(step.size(), 2u);
}

}  // namespace
}  // namespace cairn::engine
