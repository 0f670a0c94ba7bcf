// How an answer ends, by how its calls do, and what is remembered of it.
#include "api/chat/chat_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

class LastFinish final : public ChatSerializer {
 public:
  explicit LastFinish(ChatFinish& finish) : finish_(finish) {}
  bool streams() const override { return true; }
  std::string begin() override { return {}; }
  std::string parts(int, std::span<const Part>, const TokenEvent*) override { return {}; }
  std::string finish(int, ChatFinish&& finish) override {
    finish_ = std::move(finish);
    return {};
  }
  std::string done() override { return {}; }
  std::string failure(const Error&) override { return {}; }

 private:
  ChatFinish& finish_;
};

struct Ended {
  ChatFinish finish;
  int remembered = 0;
};

Ended answer(std::string_view text, FinishReason reason = FinishReason::kStop, std::string stop = "",
             std::string forced_prefix = "") {
  Ended ended;
  OutputContext context;
  context.format = {ToolFormat::kHermes, ReasoningFormat::kThink};
  context.tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  context.forced_prefix = std::move(forced_prefix);
  context.offered = {std::make_shared<const ordered_json>(context.tools)};
  const TurnRecorder recorder = [&](const ChatTurn&, std::span<const TokenId>, size_t) {
    ++ended.remembered;
    return std::function<void()>();
  };
  ChatOutput output(std::make_unique<LastFinish>(ended.finish), context, 1, recorder);
  output.begin();
  TokenEvent event;
  event.token = TokenId{1};
  event.text = text;
  output.token(0, std::move(event));
  Finish finish;
  finish.reason = reason;
  finish.stop = std::move(stop);
  output.finish(0, std::move(finish));
  return ended;
}

constexpr std::string_view kWhole = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
constexpr std::string_view kCut = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x";
constexpr std::string_view kBroken = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" 1}}</tool_call>";

TEST(ChatOutput, WholeCallsEndTheTurnAndAreRemembered) {
  const Ended ended = answer(kWhole);
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kToolCalls);
  EXPECT_EQ(ended.remembered, 1);
  EXPECT_EQ(answer("Yes.").finish.reason, ChatFinishReason::kStop);
}

TEST(ChatOutput, ACutCallIsCutHoweverTheAnswerEnds) {
  const Ended by_itself = answer(kCut);
  EXPECT_EQ(by_itself.finish.reason, ChatFinishReason::kCutCall);
  EXPECT_EQ(by_itself.remembered, 0);
  EXPECT_EQ(by_itself.finish.turn.calls.at(0).arguments, "{\"a\": \"x");
  EXPECT_EQ(answer(kCut, FinishReason::kStop, "x").finish.reason, ChatFinishReason::kCutCall);
  EXPECT_EQ(answer(kCut, FinishReason::kLength).finish.reason, ChatFinishReason::kLength);
  EXPECT_EQ(answer(kCut, FinishReason::kRepetition).finish.reason, ChatFinishReason::kRepetition);
  EXPECT_EQ(answer(std::string(kWhole) + std::string(kCut)).finish.reason, ChatFinishReason::kCutCall);
}

TEST(ChatOutput, ABrokenCallIsNoToolCalls) {
  const Ended ended = answer(kBroken);
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kStop);
  EXPECT_EQ(ended.remembered, 0);
  EXPECT_EQ(ended.finish.turn.calls.at(0).arguments, "{\"a\" 1}}");
  EXPECT_EQ(ended.finish.turn.content, "");
  EXPECT_EQ(answer(std::string(kBroken) + std::string(kWhole)).finish.reason, ChatFinishReason::kStop);
}

TEST(ChatOutput, WhatFollowsAForcedBeginningIsACall) {
  const Ended ended = answer("Once upon a time", FinishReason::kStop, "", "<tool_call>\n{\"name\": \"");
  ASSERT_EQ(ended.finish.turn.calls.size(), 1u);
  EXPECT_EQ(ended.finish.turn.calls[0].name, "Once");
  EXPECT_EQ(ended.finish.turn.calls[0].arguments, " upon a time");
  EXPECT_EQ(ended.finish.turn.content, "");
}

TEST(ChatOutput, CallsInAnotherDressHaveIdsAndEndTheTurn) {
  const Ended ended = answer("I look.\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```");
  EXPECT_EQ(ended.finish.reason, ChatFinishReason::kToolCalls);
  EXPECT_EQ(ended.remembered, 1);
  EXPECT_EQ(ended.finish.turn.content, "I look.");
  ASSERT_EQ(ended.finish.turn.calls.size(), 1u);
  EXPECT_THAT(ended.finish.turn.calls[0].id, testing::StartsWith("call_"));
  EXPECT_EQ(ended.finish.turn.calls[0].arguments, "{\"a\": 1}");
}

}  // namespace
}  // namespace cairn::api
