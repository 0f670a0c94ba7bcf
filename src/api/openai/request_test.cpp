#include "api/openai/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/params/request_context.h"
#include "api/params/request_fields.h"

namespace cairn::api::openai {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::StartsWith;

std::string body_with(std::string_view more) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "x"}}], {}}})", more);
}

OpenAiChatRequest chat_of(std::string_view more, RequestContext& context) {
  auto request = parse_chat(context, parse_object(body_with(more)).value());
  EXPECT_TRUE(request.has_value()) << more << request.error().text();
  return request.value_or(OpenAiChatRequest{});
}

OpenAiChatRequest chat_of(std::string_view more) {
  RequestContext context;
  return chat_of(more, context);
}

void expect_refused(std::string_view more, const std::string& at, Code code) {
  RequestContext context;
  const auto request = parse_chat(context, parse_object(body_with(more)).value());
  ASSERT_FALSE(request.has_value()) << more;
  EXPECT_EQ(request.error().at, at) << request.error().message;
  EXPECT_EQ(request.error().code, code) << request.error().message;
}

constexpr std::string_view kTools = R"("tools": [{"type": "function", "function": {"name": "read"}},
  {"type": "function", "function": {"name": "write"}}, {"type": "custom", "custom": {"name": "code"}}])";

TEST(ChatRequest, FieldsThatClientsCannotLeaveOutAreTakenAndTold) {
  struct Told {
    std::string_view more;
    std::string path;
  };
  for (const Told& told : std::initializer_list<Told>{
           {R"("verbosity": "low")", "verbosity"},
           {R"("prediction": {"type": "content", "content": "x"})", "prediction"},
           {R"("store": true)", "store"},
           {R"("user": "u")", "user"},
           {R"("stream_options": {"include_obfuscation": false})", "stream_options.include_obfuscation"},
           {R"("frobnicate": [1])", "frobnicate"}}) {
    RequestContext context;
    chat_of(told.more, context);
    EXPECT_THAT(context.warnings(), ElementsAre(StartsWith(told.path + " "))) << told.more;
  }
}

TEST(ChatRequest, NeutralValuesAreTakenWithoutAWord) {
  for (const char* neutral :
       {R"("functions": [])", R"("functions": [], "function_call": "none")", R"("function_call": "auto")",
        R"("modalities": ["text"])", R"("response_format": {"type": "text"})", R"("grammar": "")", R"("n": 1)",
        R"("top_logprobs": 0)", R"("logprobs": false, "top_logprobs": 0)", R"("metadata": {"a": "b"})",
        R"("store": false)", R"("audio": null)"}) {
    RequestContext context;
    chat_of(neutral, context);
    EXPECT_THAT(context.warnings(), ElementsAre()) << neutral;
  }
}

TEST(ChatRequest, WhatWouldChangeTheAnswerIsRefusedByName) {
  expect_refused(R"("function_call": {"name": "f"})", "function_call", Code::kInvalidArgument);
  expect_refused(R"("modalities": ["text", "audio"])", "modalities", Code::kUnsupported);
  expect_refused(R"("top_logprobs": 2)", "top_logprobs", Code::kInvalidArgument);
  expect_refused(R"("stream_options": {"include_usage": 1})", "stream_options.include_usage", Code::kInvalidArgument);
}

TEST(ChatRequest, FunctionsAreToolsOfWhichOneIsCalled) {
  constexpr std::string_view kFunctions = R"("functions": [{"name": "read", "parameters": {"type": "object"}},
    {"name": "write", "description": "Writes."}])";
  const auto with = [&](std::string_view more) { return std::string(kFunctions) + std::string(more); };
  const OpenAiChatRequest request = chat_of(kFunctions);
  EXPECT_TRUE(request.has_functions);
  EXPECT_FALSE(request.chat.parallel_calls);
  EXPECT_EQ(request.chat.tool_use, chat::ToolUse::kAuto);
  ASSERT_EQ(request.chat.input.tools.size(), 2U);
  EXPECT_EQ(request.chat.input.tools[1]["type"], "function");
  EXPECT_EQ(request.chat.input.tools[1]["function"]["description"], "Writes.");
  EXPECT_EQ(chat_of(with(R"(, "function_call": "none")")).chat.tool_use, chat::ToolUse::kNone);
  const ChatRequest named = chat_of(with(R"(, "function_call": {"name": "write"})")).chat;
  EXPECT_EQ(named.tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(named.tool_name, "write");
  expect_refused(with(R"(, "function_call": {"name": "delete"})"), "function_call.name", Code::kInvalidArgument);
  expect_refused(with(R"(, "function_call": "required")"), "function_call", Code::kInvalidArgument);
  expect_refused(with(fmt::format(", {}", kTools)), "functions", Code::kInvalidArgument);
  expect_refused(R"("functions": [{"description": "x"}])", "functions[0].name", Code::kInvalidArgument);
  expect_refused(R"("functions": [{"name": "f"}, {"name": "f"}])", "functions[1].name", Code::kInvalidArgument);
  expect_refused(R"("functions": {"name": "f"})", "functions", Code::kInvalidArgument);
}

TEST(ChatRequest, AMissingOrNegativeLimitIsTheContext) {
  EXPECT_EQ(chat_of(R"("stream": false)").chat.generate.max_tokens, -1);
  EXPECT_EQ(chat_of(R"("max_tokens": -1)").chat.generate.max_tokens, -1);
  EXPECT_EQ(chat_of(R"("max_completion_tokens": 7)").chat.generate.max_tokens, 7);
  EXPECT_EQ(chat_of(R"("max_tokens": 0)").chat.generate.max_tokens, 0);
}

TEST(ChatRequest, AllowedToolsAreThoseThatAreOffered) {
  const auto allowed = [](std::string_view mode, std::string_view names) {
    return chat_of(fmt::format(R"({}, "tool_choice": {{"type": "allowed_tools", "allowed_tools": {{"mode": "{}",
      "tools": [{}]}}}})",
                               kTools, mode, names))
        .chat;
  };
  const auto read = allowed("auto", R"({"type": "function", "function": {"name": "read"}})");
  ASSERT_EQ(read.input.tools.size(), 1u);
  EXPECT_EQ(read.input.tools[0]["function"]["name"], "read");
  EXPECT_EQ(read.tool_use, chat::ToolUse::kAuto);
  const auto two = allowed("required", R"({"type": "function", "name": "read"}, {"type": "custom",
    "custom": {"name": "code"}})");
  EXPECT_EQ(two.input.tools.size(), 2u);
  EXPECT_EQ(two.tool_use, chat::ToolUse::kRequired);
}

TEST(ChatRequest, CustomToolsAreFunctionsWhoseCallsAreCustom) {
  const auto request = chat_of(kTools);
  EXPECT_THAT(request.custom_tools, ElementsAre("code"));
  EXPECT_EQ(request.chat.input.tools[2]["function"]["name"], "code");
  const auto named =
      chat_of(fmt::format(R"({}, "tool_choice": {{"type": "custom", "custom": {{"name": "code"}}}})", kTools));
  EXPECT_EQ(named.chat.tool_name, "code");
  EXPECT_EQ(chat_of(fmt::format(R"({}, "tool_choice": "any")", kTools)).chat.tool_use, chat::ToolUse::kRequired);
}

TEST(ChatRequest, ThinkingIsAskedForInManyWords) {
  const auto reasoning = [](std::string_view more) { return chat_of(more).chat.reasoning; };
  EXPECT_EQ(reasoning(R"("reasoning": {"effort": "low"})").effort, "low");
  EXPECT_EQ(reasoning(R"("reasoning": {"enabled": false})").enabled, false);
  EXPECT_EQ(reasoning(R"("thinking": {"type": "disabled"})").enabled, false);
  EXPECT_EQ(reasoning(R"("thinking": {"type": "enabled", "budget_tokens": 99})").tokens_max, 99);
  EXPECT_EQ(reasoning(R"("reasoning": {"max_tokens": 98, "exclude": true})").tokens_max, 98);
  EXPECT_TRUE(reasoning(R"("reasoning": {"exclude": true})").hidden);
  EXPECT_TRUE(reasoning(R"("include_reasoning": false)").hidden);
  EXPECT_TRUE(reasoning(R"("include_reasoning": true, "reasoning": {"exclude": true})").hidden);
  for (const std::string_view shown : {R"("include_reasoning": true)", R"("reasoning": {"exclude": false})"})
    EXPECT_FALSE(reasoning(shown).hidden);
  expect_refused(R"("include_reasoning": "no")", "include_reasoning", Code::kInvalidArgument);
  expect_refused(R"("reasoning": {"exclude": 1})", "reasoning.exclude", Code::kInvalidArgument);
  EXPECT_EQ(reasoning(R"("reasoning_effort": "none")").enabled, false);
  EXPECT_EQ(reasoning(R"("thinking": false)").enabled, false);
  EXPECT_EQ(reasoning(R"("reasoning": "low")").effort, "low");
  expect_refused(R"("thinking": 5)", "thinking", Code::kInvalidArgument);
  expect_refused(R"("reasoning": {"effort": "huge"})", "reasoning.effort", Code::kInvalidArgument);
  expect_refused(R"("thinking": {})", "thinking.type", Code::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::api::openai
