// Which tokens a request lets its answer have, beside forms, drafts and other rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "engine/decoding_constraint.h"
#include "engine/testing/engine_fixture.h"

namespace cairn::engine {
namespace {

TokenId token_of(int32_t value) { return TokenId{value}; }

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
      if (shared_tokenizer->ends_generation(token_of(i))) allow(token_of(i));
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
  request.allowed_tokens = {token_of(7), token_of(64), token_of(300), token_of(7)};
  request.sampling.top_k = 2;
  const Answer answer = ask_both_ways(request);
  EXPECT_EQ(answer.tokens.size(), 40U);
  EXPECT_EQ(answer.finish.reason, FinishReason::kLength);
  for (const TokenId token : answer.tokens)
    EXPECT_NE(std::ranges::find(request.allowed_tokens, token), request.allowed_tokens.end()) << index(token);
  for (const TokenId token : request.allowed_tokens)
    EXPECT_NE(std::ranges::find(answer.tokens, token), answer.tokens.end()) << index(token);
}

// vLLM masks the sampler's logits, as a reference does here.
TEST_F(ForbiddenTokens, TheGreedyAnswerIsTheMostLikelyOneOfTheList) {
  GenerateRequest request = request_of(prompt_of(9), 12);
  for (int32_t i = 0; i < 320; i += 3) request.allowed_tokens.push_back(token_of(i));
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
  runner_->set_model(script(3, {token_of(70), token_of(71)}, eos));
  GenerateRequest request = request_of(prompt_of(3), 6);
  request.allowed_tokens = {token_of(70), token_of(71)};
  const Answer endless = ask_both_ways(request);
  EXPECT_EQ(endless.tokens.size(), 6U);
  EXPECT_EQ(endless.finish.reason, FinishReason::kLength);
  request.allowed_tokens.push_back(eos);
  const Answer ended = ask_both_ways(request);
  EXPECT_EQ(ended.tokens, (std::vector<TokenId>{token_of(70), token_of(71)}));
  EXPECT_EQ(ended.finish.reason, FinishReason::kStop);
}

TEST_F(ForbiddenTokens, AFormAndTheListLeaveWhatBothAllow) {
  GenerateRequest request = request_of(prompt_of(9), 10, 1.5f, 3);
  request.ignore_eos = true;
  request.allowed_tokens = {token_of(30), token_of(31), token_of(40)};
  request.constraint = form_of({token_of(31), token_of(40), token_of(50)});
  start();
  const Answer answer = ask(request);
  EXPECT_EQ(answer.tokens.size(), 10U);
  for (const TokenId token : answer.tokens) EXPECT_TRUE(token == token_of(31) || token == token_of(40)) << index(token);
}

// The promise is stronger than vLLM's, which bans the last token of the tokens that a word is made into: no tokens
// spell the text, and only tokens that would complete it are banned.
TEST_F(ForbiddenTokens, ABannedTextNeverComesAndNothingElseIsBanned) {
  for (const std::vector<std::string_view>& texts :
       {std::vector<std::string_view>{"e"}, {"he", "t"}, {"the", " a", "ing", "you"}}) {
    GenerateRequest request = request_of(prompt_of(9), 60, 1.2f, 3);
    request.ignore_eos = true;
    request.text_ban = std::make_shared<const sampling::TextBan>(*shared_tokenizer, texts);
    std::vector<TokenId> history = request.prompt, expected;
    std::string text;
    std::vector<float> logits(320);
    sampling::Sampler sampler(request.sampling, 320, request.prompt, nullptr, shared_tokenizer.get());
    while (expected.size() < 60) {
      FakeRunner::hash_model(history, logits);
      std::vector<TokenId> banned;
      for (int32_t i = 0; i < shared_tokenizer->size(); ++i) {
        // What the answer shows of special tokens is nothing, but whoever bans their text bans them.
        const std::string with = text + std::string(shared_tokenizer->piece(token_of(i), true));
        if (std::ranges::any_of(texts, [&](std::string_view each) { return with.contains(each); }))
          banned.push_back(token_of(i));
      }
      const TokenId token = sampler.sample(logits, banned).token;
      expected.push_back(token);
      history.push_back(token);
      if (index(token) < shared_tokenizer->size()) text += shared_tokenizer->piece(token, false);
    }
    const Answer answer = ask_both_ways(request);
    EXPECT_EQ(answer.tokens, expected);
    for (const std::string_view each : texts) EXPECT_FALSE(answer.text.contains(each)) << answer.text;
  }
}

// Every choice has an end of its own to look at, and a text that is almost banned comes.
TEST_F(ForbiddenTokens, AnAnswerGoesOnWithWhatIsNotBanned) {
  const std::vector<TokenId> hello = encode("yes no yes yes no");
  const TokenId eos = shared_tokenizer->special().eos;
  runner_->set_model(script(3, hello, eos));
  const auto banning = [&](std::string_view text) {
    GenerateRequest request = request_of(prompt_of(3), 30);
    request.text_ban = std::make_shared<const sampling::TextBan>(*shared_tokenizer, std::array{text});
    return request;
  };
  start();
  EXPECT_EQ(ask(banning("yes no no")).text, "yes no yes yes no");
  const auto first = submit(banning("yes yes"));
  const auto second = submit(banning("no yes"));
  EXPECT_TRUE(collect(*first).text.starts_with("yes no yes"));
  EXPECT_FALSE(collect(*second).text.starts_with("yes no yes"));
}

TEST_F(ForbiddenTokens, AListThatLeavesNothingIsAnErrorOfTheRequestAndSaysWhy) {
  start();
  GenerateRequest request = request_of(prompt_of(9), 10);
  request.allowed_tokens = {shared_tokenizer->special().eos};
  request.min_tokens = 3;
  const Answer banned = ask(request);
  EXPECT_EQ(banned.finish.error.code, Code::kInvalidArgument);
  EXPECT_NE(banned.finish.error.message.find("min_tokens leave nothing"), std::string::npos)
      << banned.finish.error.message;
  // A form whose end is all that it leaves is at its end.
  request = request_of(prompt_of(9), 10);
  request.allowed_tokens = {token_of(30)};
  request.constraint = form_of({token_of(31)});
  EXPECT_EQ(ask(request).finish.reason, FinishReason::kStop);
  std::vector<uint64_t> words(5);
  words[0] = 2;
  request.constraint = std::make_shared<Mask>(words);
  const Answer apart = ask(request);
  EXPECT_EQ(apart.finish.error.code, Code::kInvalidArgument);
  EXPECT_NE(apart.finish.error.message.find("leaves nothing that allowed_token_ids"), std::string::npos)
      << apart.finish.error.message;
  request.allowed_tokens = {token_of(320)};
  const Error unknown = refused(request);
  EXPECT_EQ(unknown.at, "allowed_token_ids");
  EXPECT_NE(unknown.message.find("names token 320; this model has tokens 0 to 319"), std::string::npos);
}

}  // namespace
}  // namespace cairn::engine
