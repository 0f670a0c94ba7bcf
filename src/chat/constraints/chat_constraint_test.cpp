#include "chat/constraints/chat_constraint.h"
#include "base/testing/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

const OutputFormat kHermes{ToolFormat::kHermes, ReasoningFormat::kThink};

class ChatConstraintTest : public testing::Test {
 protected:
  void SetUp() override {
    auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().text();
    auto tokenizer = tokenizer::Tokenizer::load(file->metadata());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().text();
    tokenizer_ = std::move(*tokenizer);
  }
  std::vector<TokenId> encode(const std::string& text) {
    return tokenizer_->encode(text, {.add_special = false, .parse_special = true}).value();
  }
  std::string text_of(std::span<const TokenId> tokens) {
    std::string text;
    for (const TokenId id : tokens) text += tokenizer_->piece(id, true);
    return text;
  }
  /// The constrained output of a model that writes `text`, repeatedly if `circles`, token by token; at most
  /// `tokens_max` tokens.
  std::string run(ChatConstraintRules rules, const std::string& prompt, const std::string& text, int tokens_max,
                  bool circles = false) {
    ChatConstraint constraint(std::move(rules), OutputParser(kHermes, ordered_json(nullptr), prompt), *tokenizer_,
                              kNoToken);
    const auto wanted = encode(text);
    std::vector<TokenId> said;
    engine::NextTokenRule next;
    constraint.begin(next);
    if (next.unfinished) constraint.finish(next);
    size_t at = 0;
    end_ = std::nullopt;
    while (static_cast<int>(said.size()) < tokens_max && !next.end) {
      TokenId token = kNoToken;
      if (!next.forced.empty()) {
        token = next.forced.front();
        next.forced.erase(next.forced.begin());
      } else {
        if (at == wanted.size() && !circles) break;
        token = wanted[at++ % wanted.size()];
      }
      said.push_back(token);
      constraint.token(token, std::string(tokenizer_->piece(token, true)), next);
      if (next.unfinished) constraint.finish(next);
    }
    end_ = next.end;
    return text_of(said);
  }
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::optional<engine::FinishReason> end_;
};

TEST_F(ChatConstraintTest, AtTheBudgetTheThinkingIsClosed) {
  const std::string thoughts = "one two three four five six seven eight nine ten";
  const auto tokens = encode(thoughts);
  ASSERT_GT(tokens.size(), 8u);
  const std::string open = "assistant\n<think>\n";
  EXPECT_EQ(run({.reasoning_tokens_max = 5}, open, thoughts, 1'000),
            text_of(std::span(tokens).first(5)) + "\n</think>\n\n" + text_of(std::span(tokens).subspan(5)));
  EXPECT_EQ(run({.reasoning_tokens_max = 0}, open, thoughts, 1'000), "\n</think>\n\n" + thoughts);
  EXPECT_EQ(run({.reasoning_tokens_max = 1'000}, open, thoughts, 1'000), thoughts);
  EXPECT_EQ(run({}, open, thoughts, 1'000), thoughts);
  // Without thinking there is nothing to close.
  EXPECT_EQ(run({.reasoning_tokens_max = 0}, "assistant\n", thoughts, 1'000), thoughts);
  EXPECT_EQ(run({.reasoning_tokens_max = 0}, "assistant\n", "<think>" + thoughts, 1'000),
            "<think>\n</think>\n\n" + thoughts);
}

TEST_F(ChatConstraintTest, WhatIsForcedGoesOnFromTheText) {
  auto file = gguf::Reader::open(test_data("/trained/stories260K-f32.gguf"));
  ASSERT_TRUE(file.has_value()) << file.error().text();
  tokenizer_ = tokenizer::Tokenizer::load(file->metadata()).value();
  const std::string thoughts = "one two three four five";
  const auto tokens = encode(thoughts);
  EXPECT_EQ(run({.reasoning_tokens_max = 5}, "<think>\n", thoughts, 1'000),
            text_of(std::span(tokens).first(5)) + "\n</think>\n\n" + text_of(std::span(tokens).subspan(5)));
}

TEST_F(ChatConstraintTest, ThinkingThatGoesInCirclesIsClosed) {
  const std::string said = run({}, "<think>\n", "wait, the cat is here. ", 2'000, true);
  const size_t close = said.find("\n</think>\n\n");
  ASSERT_NE(close, std::string::npos);
  EXPECT_LT(encode(said.substr(0, close)).size(), 400u);
}

TEST_F(ChatConstraintTest, AnswersThatGoInCirclesEndWhereNothingElseBoundsThem) {
  run({.stops_on_loop = true}, "", "the cat is here. ", 20'000, true);
  EXPECT_EQ(end_, engine::FinishReason::kRepetition);
  run({}, "", "the cat is here. ", 3'000, true);
  EXPECT_EQ(end_, std::nullopt);
}

TEST_F(ChatConstraintTest, OneCallIsTheLast) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const std::string text = "Well. " + call + "\n" + call;
  run({.one_call = true}, "", text, 10'000);
  EXPECT_EQ(end_, engine::FinishReason::kStop);
  EXPECT_EQ(run({}, "", text, 10'000), text);
  EXPECT_EQ(end_, std::nullopt);
}

TEST_F(ChatConstraintTest, OneCallInAnotherDressIsTheLastToo) {
  const auto tools = std::make_shared<const ordered_json>(
      ordered_json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])"));
  ChatConstraint constraint({.one_call = true}, OutputParser(kHermes, *tools, "", {tools, 1}), *tokenizer_, kNoToken);
  engine::NextTokenRule next;
  constraint.begin(next);
  if (next.unfinished) constraint.finish(next);
  const std::string call = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}";
  std::string said;
  for (const TokenId token : encode(call + "\n" + call)) {
    if (next.end) break;
    said += tokenizer_->piece(token, true);
    constraint.token(token, tokenizer_->piece(token, true), next);
    if (next.unfinished) constraint.finish(next);
  }
  EXPECT_EQ(next.end, engine::FinishReason::kStop);
  EXPECT_EQ(said, call);
}

TEST_F(ChatConstraintTest, WhatIsBannedFollowsTheText) {
  const std::string_view block_start = "<tool_call>";
  const auto ban = std::make_shared<const sampling::TextBan>(*tokenizer_, std::span(&block_start, 1));
  ChatConstraint constraint({.ban = ban}, OutputParser(kHermes, ordered_json(nullptr), ""), *tokenizer_, kNoToken);
  engine::NextTokenRule next;
  constraint.begin(next);
  if (next.unfinished) constraint.finish(next);
  for (const TokenId token : encode("x <tool_call")) {
    EXPECT_THAT(next.banned, testing::Not(testing::Contains(token)));
    constraint.token(token, tokenizer_->piece(token, true), next);
    if (next.unfinished) constraint.finish(next);
  }
  const auto closing = encode(">");
  EXPECT_THAT(next.banned, testing::Contains(closing.back()));
  constraint.token(encode("x").back(), "x", next);
  if (next.unfinished) constraint.finish(next);
  EXPECT_THAT(next.banned, testing::Not(testing::Contains(closing.back())));
}

}  // namespace
}  // namespace cairn::chat
