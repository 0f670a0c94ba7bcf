#include "chat/sampled_turns.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

const chat::CacheScope kOwnScope{.id = 1, .tenant = "me"};

chat::SampledTurn turn_of(std::string content, std::vector<chat::ToolCall> calls = {}, size_t tokens = 3) {
  return {{std::move(content), "", std::move(calls)}, std::vector<TokenId>(tokens, TokenId{5}), 0};
}

ordered_json message_of(const std::string& content, const ordered_json& calls = nullptr) {
  ordered_json message = {{"role", "assistant"}, {"content", content}};
  if (!calls.is_null()) message["tool_calls"] = calls;
  return message;
}

ordered_json call_of(const std::string& id, const std::string& name, const ordered_json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

TEST(SampledTurnCache, ATextIsFoundByItself) {
  chat::SampledTurnCache turns;
  turns.keep(kOwnScope, turn_of("Hello there."));
  EXPECT_NE(turns.find(kOwnScope, message_of("Hello there.")), nullptr);
  EXPECT_NE(turns.find(kOwnScope, message_of(" Hello there.\n")), nullptr);
  EXPECT_EQ(turns.find(kOwnScope, message_of("Hello there!")), nullptr);
  EXPECT_EQ(turns.find({.id = 2, .tenant = "me"}, message_of("Hello there.")), nullptr);
  EXPECT_NE(turns.find(kOwnScope, {{"role", "assistant"},
                                   {"content", ordered_json::array({{{"type", "text"}, {"text", "Hello there."}}})}}),
            nullptr);
}

TEST(SampledTurnCache, ACallIsFoundHoweverItsArgumentsAreWritten) {
  chat::SampledTurnCache turns;
  turns.keep(kOwnScope, turn_of("", {{"call_1", "add", R"({"a": 1, "b": [2,3]})"}}));
  const auto finds = [&](const ordered_json& calls, const std::string& content = "") {
    return turns.find(kOwnScope, message_of(content, calls)) != nullptr;
  };
  EXPECT_TRUE(finds(ordered_json::array({call_of("call_1", "add", R"({"a": 1, "b": [2,3]})")})));
  EXPECT_TRUE(finds(ordered_json::array({call_of("call_1", "add", R"({"b":[2,3],"a":1})")})));
  EXPECT_TRUE(finds(ordered_json::array({call_of("call_1", "add", {{"b", {2, 3}}, {"a", 1}})})));
  EXPECT_FALSE(finds(ordered_json::array({call_of("call_1", "add", R"({"a": 2, "b": [2,3]})")})));
  EXPECT_FALSE(finds(ordered_json::array({call_of("call_1", "add", "{not json")})));
  EXPECT_FALSE(finds(ordered_json::array({call_of("call_1", "sub", R"({"a": 1, "b": [2,3]})")})));
  EXPECT_FALSE(finds(ordered_json::array({call_of("call_2", "add", R"({"a": 1, "b": [2,3]})")})));
  EXPECT_FALSE(finds(ordered_json::array({call_of("call_1", "add", R"({"a": 1, "b": [2,3]})")}), "And more."));
  EXPECT_FALSE(finds(
      ordered_json::array({call_of("call_1", "add", R"({"a": 1, "b": [2,3]})"), call_of("call_2", "add", "{}")})));
}

TEST(SampledTurnCache, ArgumentsThatAreNoJsonAreFoundAsTheyAre) {
  chat::SampledTurnCache turns;
  turns.keep(kOwnScope, turn_of("", {{"call_1", "add", "{\"a\": "}}));
  EXPECT_NE(turns.find(kOwnScope, message_of("", ordered_json::array({call_of("call_1", "add", "{\"a\": ")}))),
            nullptr);
  EXPECT_EQ(turns.find(kOwnScope, message_of("", ordered_json::array({call_of("call_1", "add", "{\"a\":")}))), nullptr);
}

TEST(SampledTurnCache, KeepsTheLastOnes) {
  chat::SampledTurnCache turns;
  for (size_t i = 0; i < chat::kSampledTurnsMax + 10; ++i) {
    turns.keep(kOwnScope, turn_of(std::to_string(i)));
    EXPECT_NE(turns.find(kOwnScope, message_of("0")), nullptr);  // used all the time
  }
  EXPECT_EQ(turns.size(), chat::kSampledTurnsMax);
  EXPECT_EQ(turns.find(kOwnScope, message_of("5")), nullptr);
  EXPECT_NE(turns.find(kOwnScope, message_of(std::to_string(chat::kSampledTurnsMax + 9))), nullptr);
}

TEST(SampledTurnCache, KeepsAsManyAsItMay) {
  chat::SampledTurnCache two(2);
  for (const char* text : {"a", "b", "c"}) two.keep(kOwnScope, turn_of(text));
  EXPECT_EQ(two.size(), 2u);
  EXPECT_EQ(two.find(kOwnScope, message_of("a")), nullptr);
  chat::SampledTurnCache none(0);
  none.keep(kOwnScope, turn_of("a"));
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.find(kOwnScope, message_of("a")), nullptr);
}

TEST(SampledTurnCache, TokensAreBoundedToo) {
  chat::SampledTurnCache turns;
  for (int i = 0; i < 10; ++i) turns.keep(kOwnScope, turn_of(std::to_string(i), {}, chat::kSampledTokensMax / 4));
  EXPECT_EQ(turns.size(), 4u);
  turns.keep(kOwnScope, turn_of("too long", {}, chat::kSampledTokensMax + 1));
  EXPECT_EQ(turns.size(), 4u);
}

}  // namespace
}  // namespace cairn::api
