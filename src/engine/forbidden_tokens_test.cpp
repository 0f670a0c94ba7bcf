// Which tokens a request lets its answer have, beside forms, drafts and other rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "engine/decoding_constraint.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

TokenId id(int32_t value) { return TokenId{value}; }

/// Allows the same tokens all the time.
class Mask final : public DecodingConstraint {
 public:
  explicit Mask(std::vector<uint64_t> words) : words_(std::move(words)) {}
  void begin(NextTokenRule& next) override { next.allowed = words_; }
  void token(TokenId, std::string_view, NextTokenRule& next) override { next.allowed = words_; }

 private:
  std::vector<uint64_t> words_;
};

class ForbiddenTokens : public EngineTest {
 protected:
  static void SetUpTestSuite() { load_tokenizer(test_data()); }

  /// A form of these tokens, and of ends.
  static std::shared_ptr<DecodingConstraint> form_of(const std::vector<TokenId>& tokens) {
    std::vector<uint64_t> words(5);
    const auto allow = [&](TokenId token) {
      words[static_cast<size_t>(index(token)) / 64] |= uint64_t{1} << (index(token) % 64);
    };
    for (const TokenId token : tokens) allow(token);
    for (int32_t i = 0; i < shared_tokenizer->size(); ++i)
      if (shared_tokenizer->ends_generation(id(i))) allow(id(i));
    return std::make_shared<Mask>(std::move(words));
  }
  /// With drafts and without, the answer is the same.
  Answer ask_both_ways(const GenerateRequest& request) {
    start();
    Answer plain = ask(request);
    start({.kv_pages = {64, 64}, .sequences_max = 16, .prefill_chunk_max = 24, .speculation = {.tokens_max = 4}});
    EXPECT_EQ(ask(request).tokens, plain.tokens);
    return plain;
  }
};

// vLLM's allowed_token_ids: all other logits become -infinity before any filter.
TEST_F(ForbiddenTokens, OnlyTheTokensOfTheListAreSampled) {
  GenerateRequest request = request_of(prompt_of(9), 40, 1.5f, 3);
  request.allowed_tokens = {id(7), id(64), id(300), id(7)};
  request.sampling.top_k = 2;
  const Answer answer = ask_both_ways(request);
  EXPECT_EQ(answer.tokens.size(), 40U);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  for (const TokenId token : answer.tokens)
    EXPECT_NE(std::ranges::find(request.allowed_tokens, token), request.allowed_tokens.end()) << index(token);
  for (const TokenId token : request.allowed_tokens)
    EXPECT_NE(std::ranges::find(answer.tokens, token), answer.tokens.end()) << index(token);
}

// As in vLLM, which masks the sampler's logits as a reference does here.
TEST_F(ForbiddenTokens, TheGreedyAnswerIsTheMostLikelyOneOfTheList) {
  GenerateRequest request = request_of(prompt_of(9), 12);
  for (int32_t i = 0; i < 320; i += 3) request.allowed_tokens.push_back(id(i));
  std::vector<TokenId> history = request.prompt;
  std::vector<TokenId> expected;
  std::vector<float> logits(320);
  while (expected.size() < 12) {
    FakeRunner::hash_model(history, logits);
    TokenId best = kNoToken;
    for (const TokenId token : request.allowed_tokens) {
      if (best == kNoToken || logits[static_cast<size_t>(index(token))] > logits[static_cast<size_t>(index(best))])
        best = token;
    }
    if (index(best) < shared_tokenizer->size() && shared_tokenizer->ends_generation(best)) break;
    expected.push_back(best);
    history.push_back(best);
  }
  EXPECT_EQ(ask_both_ways(request).tokens, expected);
}

TEST_F(ForbiddenTokens, AnEndOfTheAnswerComesOnlyIfItIsInTheList) {
  const TokenId eos = shared_tokenizer->special().eos;
  runner_->set_model(script(3, {id(70), id(71)}, eos));
  GenerateRequest request = request_of(prompt_of(3), 6);
  request.allowed_tokens = {id(70), id(71)};
  const Answer endless = ask_both_ways(request);
  EXPECT_EQ(endless.tokens.size(), 6U);
  EXPECT_EQ(endless.finish.reason, FinishReason::kLength);
  request.allowed_tokens.push_back(eos);
  const Answer ended = ask_both_ways(request);
  EXPECT_EQ(ended.tokens, (std::vector<TokenId>{id(70), id(71)}));
  EXPECT_EQ(ended.finish.reason, FinishReason::kStop);
}

TEST_F(ForbiddenTokens, AFormAndTheListLeaveWhatBothAllow) {
  GenerateRequest request = request_of(prompt_of(9), 10, 1.5f, 3);
  request.ignore_eos = true;
  request.allowed_tokens = {id(30), id(31), id(40)};
  request.constraint = form_of({id(31), id(40), id(50)});
  start();
  const Answer answer = ask(request);
  EXPECT_EQ(answer.tokens.size(), 10U);
  for (const TokenId token : answer.tokens) EXPECT_TRUE(token == id(31) || token == id(40)) << index(token);
}

TEST_F(ForbiddenTokens, AListThatLeavesNothingIsAnErrorOfTheRequestAndSaysWhy) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 10);
  request.allowed_tokens = {shared_tokenizer->special().eos};
  request.min_tokens = 3;
  const Answer banned = ask(request);
  EXPECT_EQ(banned.finish.error.code, Code::kInvalidArgument);
  EXPECT_NE(banned.finish.error.message.find("all of allowed_token_ids is banned"), std::string::npos)
      << banned.finish.error.message;
  // A form whose end is all that it leaves is at its end.
  request = request_of(prompt_of(9), 10);
  request.allowed_tokens = {id(30)};
  request.constraint = form_of({id(31)});
  EXPECT_EQ(ask(request).finish.reason, FinishReason::kStop);
  std::vector<uint64_t> words(5);
  words[0] = 2;
  request.constraint = std::make_shared<Mask>(words);
  const Answer apart = ask(request);
  EXPECT_EQ(apart.finish.error.code, Code::kInvalidArgument);
  EXPECT_NE(apart.finish.error.message.find("leaves nothing of allowed_token_ids"), std::string::npos)
      << apart.finish.error.message;
  request.allowed_tokens = {id(320)};
  const Error unknown = refused(request);
  EXPECT_EQ(unknown.at, "allowed_token_ids");
  EXPECT_NE(unknown.message.find("names token 320; this model has tokens 0 to 319"), std::string::npos);
}

}  // namespace
}  // namespace cairn::engine
