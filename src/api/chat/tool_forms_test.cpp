#include "api/chat/tool_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

ordered_json json(std::string_view text) { return ordered_json::parse(text); }

TEST(ToolForms, FunctionsMayLackTheirWrapperOrTheirType) {
  const auto usual = json(R"({"type": "function", "function": {"name": "f", "parameters": {}}})");
  EXPECT_EQ(function_tool(usual), usual);
  EXPECT_EQ(function_tool(json(R"({"type": "function", "name": "f", "parameters": {}})")), usual);
  EXPECT_EQ(function_tool(json(R"({"name": "f", "parameters": {}})")), usual);
  const auto typed = function_tool(json(R"({"function": {"name": "f", "parameters": {}}})"));
  EXPECT_EQ(typed["type"], "function");
  EXPECT_EQ(typed["function"], usual["function"]);
  for (const char* other : {R"({"type": "web_search"})", R"({"type": "function"})", "5", "{}"})
    EXPECT_EQ(function_tool(json(other)), json(other));
}

TEST(ToolForms, ACustomToolIsAFunctionOfOneString) {
  const auto tool = function_tool(json(R"({"type": "custom", "custom": {"name": "code", "description": "Runs it"}})"));
  EXPECT_EQ(tool, json(R"({"type": "function", "function": {"name": "code", "description": "Runs it", "parameters":
    {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}})"));
  EXPECT_EQ(function_tool(json(R"({"type": "custom", "name": "code"})"))["function"]["name"], "code");
  const auto grammar = function_tool(json(R"({"type": "custom", "custom": {"name": "code", "format":
    {"type": "grammar", "grammar": {"definition": "start: X", "syntax": "lark"}}}})"));
  EXPECT_THAT(grammar["function"]["description"].get<std::string>(), testing::HasSubstr("start: X"));
  EXPECT_THAT(custom_tool_names(json(R"([{"type": "custom", "custom": {"name": "code"}}, {"type": "function",
    "function": {"name": "f"}}, 5])")),
              testing::ElementsAre("code"));
}

TEST(ToolForms, ChoicesHaveOneForm) {
  for (const char* required : {R"("any")", R"({"type": "any"})", R"({"type": "required"})", R"("required")"})
    EXPECT_EQ(plain_tool_choice(json(required)), "required") << required;
  EXPECT_EQ(plain_tool_choice(json(R"({"type": "auto"})")), "auto");
  const auto named = json(R"({"type": "function", "function": {"name": "f"}})");
  for (const char* one : {R"({"type": "function", "function": {"name": "f"}})", R"({"type": "function", "name": "f"})",
                          R"({"type": "tool", "name": "f"})", R"({"type": "custom", "custom": {"name": "f"}})",
                          R"({"function": {"name": "f"}})"})
    EXPECT_EQ(plain_tool_choice(json(one)), named) << one;
  for (const char* other : {R"("f")", "5", R"({"type": "function"})", R"({"type": "hosted", "name": "f"})"})
    EXPECT_EQ(plain_tool_choice(json(other)), json(other));
}

TEST(ToolForms, CustomCallsGoThereAndBack) {
  auto messages = json(R"([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls":
    [{"id": "c", "type": "custom", "custom": {"name": "code", "input": "a \"b\"\n"}}]}, 5])");
  functions_for_custom_calls(messages);
  const auto& call = messages[1]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_FALSE(call.contains("custom"));
  EXPECT_EQ(call["function"]["name"], "code");
  EXPECT_EQ(custom_input(call["function"]["arguments"]), "a \"b\"\n");
  for (const char* other : {R"({"input": "cut)", R"({"input": 5})", R"({"code": "x"})", R"({"input": "x", "more": 1})"})
    EXPECT_EQ(custom_input(other), other) << "what the model wrote is not changed";
}

}  // namespace
}  // namespace cairn::api
