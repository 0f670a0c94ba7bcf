// How an answer ends, by how its calls do, and its turn as it was sampled.
#include "chat/answer/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing/test_data.h"
#include "tokenizer/tokenizer.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

struct Ended {
  ChatFinish finish;
  bool by_itself = false;
};

Ended answer(std::string_view text, engine::FinishReason reason = engine::FinishReason::kStop, std::string stop = "",
             std::string forced_prefix = "") {
  OutputContext context;
  context.format = {ToolFormat::kHermes, ReasoningFormat::kThink};
  context.tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  context.forced_prefix = std::move(forced_prefix);
  context.offered = {std::make_shared<const ordered_json>(context.tools)};
  AnswerReader reader(context);
  reader.begin();
  engine::TokenEvent event;
  event.token = TokenId{1};
  event.text = text;
  reader.token(event);
  engine::Finish finish;
  finish.reason = reason;
  finish.stop = std::move(stop);
  reader.finish(finish);
  Ended ended{.finish = reader.result(std::move(finish))};
  ended.by_itself = reader.ended_by_itself(ended.finish);
  return ended;
}

constexpr std::string_view kWhole = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
constexpr std::string_view kCut = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x";
constexpr std::string_view kBroken = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" 1}}</tool_call>";

TEST(AnswerReader, WholeCallsEndTheTurnAndAreRemembered) {
  const Ended ended = answer(kWhole);
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kToolCalls);
  EXPECT_TRUE(ended.by_itself);
  EXPECT_EQ(answer("Yes.").finish.reason, ChatFinishReason::kStop);
}

TEST(AnswerReader, ACutCallIsCutHoweverTheAnswerEnds) {
  const Ended cut = answer(kCut);
  EXPECT_EQ(cut.finish.reason, ChatFinishReason::kCutCall);
  EXPECT_FALSE(cut.by_itself);
  EXPECT_EQ(cut.finish.turn.calls.at(0).arguments, "{\"a\": \"x");
  EXPECT_EQ(answer(kCut, engine::FinishReason::kStop, "x").finish.reason, ChatFinishReason::kCutCall);
  EXPECT_EQ(answer(kCut, engine::FinishReason::kLength).finish.reason, ChatFinishReason::kLength);
  EXPECT_EQ(answer(kCut, engine::FinishReason::kRepetition).finish.reason, ChatFinishReason::kRepetition);
  EXPECT_EQ(answer(std::string(kWhole) + std::string(kCut)).finish.reason, ChatFinishReason::kCutCall);
}

TEST(AnswerReader, ABrokenCallIsNoToolCalls) {
  const Ended ended = answer(kBroken);
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kStop);
  EXPECT_FALSE(ended.by_itself);
  EXPECT_EQ(ended.finish.turn.calls.at(0).arguments, "{\"a\" 1}}");
  EXPECT_EQ(ended.finish.turn.content, "");
  EXPECT_EQ(answer(std::string(kBroken) + std::string(kWhole)).finish.reason, ChatFinishReason::kStop);
}

TEST(AnswerReader, WhatFollowsAForcedBeginningIsACall) {
  const Ended ended = answer("Once upon a time", engine::FinishReason::kStop, "", "<tool_call>\n{\"name\": \"");
  ASSERT_EQ(ended.finish.turn.calls.size(), 1u);
  EXPECT_EQ(ended.finish.turn.calls[0].name, "Once");
  EXPECT_EQ(ended.finish.turn.calls[0].arguments, " upon a time");
  EXPECT_EQ(ended.finish.turn.content, "");
}

TEST(AnswerReader, CallsInAnotherDressHaveIdsAndEndTheTurn) {
  const Ended ended = answer("I look.\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```");
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kToolCalls);
  EXPECT_TRUE(ended.by_itself);
  EXPECT_EQ(ended.finish.turn.content, "I look.");
  ASSERT_EQ(ended.finish.turn.calls.size(), 1u);
  EXPECT_THAT(ended.finish.turn.calls[0].id, testing::StartsWith("call_"));
  EXPECT_EQ(ended.finish.turn.calls[0].arguments, "{\"a\": 1}");
}

/// The turn of an answer whose tokens are these texts.
SampledTurn turn_of(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                    const std::vector<TokenId>& forced = {}) {
  OutputContext context;
  context.format = {ToolFormat::kNone, ReasoningFormat::kThink};
  context.forced_tokens = forced;
  AnswerReader reader(context);
  for (const std::string& text : texts) {
    engine::TokenEvent event;
    event.token = tokenizer.encode(text, {.parse_special = true}).value().back();
    event.text = text;
    reader.token(event);
  }
  reader.finish({});
  return reader.sampled_turn(reader.result({}).turn, tokenizer);
}

TEST(AnswerReader, TheSpaceBehindTheThinkingIsTheTemplates) {
  const auto file = gguf::Reader::open(test_data("/models/llama.gguf"));
  ASSERT_TRUE(file.has_value()) << file.error().text();
  const auto tokenizer = tokenizer::Tokenizer::load(file->metadata()).value();
  const SampledTurn thought = turn_of(*tokenizer, {"<think>", "H", "</think>", "\n", "\n", "Y"});
  EXPECT_EQ(thought.turn.reasoning, "H");
  EXPECT_EQ(thought.turn.content, "Y");
  EXPECT_EQ(thought.tokens.size(), 6u);
  EXPECT_EQ(thought.thinking_end, 5u);
  EXPECT_EQ(turn_of(*tokenizer, {"Y", "e"}).thinking_end, 0u);
  EXPECT_EQ(turn_of(*tokenizer, {"<think>", "H", "</think>Y"}).thinking_end, kNoThinkingEnd);
  const SampledTurn forced = turn_of(*tokenizer, {"<think>", "H", "</think>", "Y"}, {TokenId{7}, TokenId{8}});
  EXPECT_EQ(forced.tokens.size(), 6u);
  EXPECT_EQ(forced.tokens[1], TokenId{8});
  EXPECT_EQ(forced.thinking_end, 5u);
}

}  // namespace
}  // namespace cairn::chat
