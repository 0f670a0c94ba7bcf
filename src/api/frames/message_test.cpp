#include "api/frames/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/params/request_context.h"

namespace cairn::api::frames {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Kind>
Kind parsed(std::string_view text) {
  RequestContext context;
  auto message = parse_message(context, text);
  EXPECT_TRUE(message.has_value()) << message.error().error.text();
  return message ? std::get<Kind>(std::move(*message)) : Kind{};
}

void expect_refused(std::string_view text, const std::string& id, const std::string& at, const std::string& words) {
  RequestContext context({.strict_fields = true});
  const auto message = parse_message(context, text);
  ASSERT_FALSE(message.has_value()) << text;
  EXPECT_EQ(message.error().id, id) << text;
  EXPECT_EQ(message.error().error.at, at) << text;
  EXPECT_THAT(message.error().error.message, HasSubstr(words)) << text;
}

TEST(FramesMessage, APromptWithItsFields) {
  const auto all = parsed<Generate>(
      R"({"id": "a", "model": "m", "prompt": "Once", "max_tokens": 7, "temperature": 0.5, "top_p": 0.25, "top_k": 3,
          "min_p": 0.125, "stop": ["x", "y"], "seed": 9, "stream": false, "priority": "batch", "ignore_eos": true,
          "metadata": {"target_ttft_ms": "250", "user": "somebody"}, "cache_salt": "s"})");
  EXPECT_EQ(all.id, "a");
  EXPECT_EQ(all.request.id, "a");
  EXPECT_EQ(all.model, "m");
  EXPECT_EQ(all.prompt, "Once");
  EXPECT_FALSE(all.stream);
  EXPECT_FALSE(all.request.text_at_start);
  EXPECT_EQ(all.request.max_tokens, 7);
  EXPECT_FLOAT_EQ(all.request.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(all.request.sampling.top_p, 0.25F);
  EXPECT_EQ(all.request.sampling.top_k, 3);
  EXPECT_FLOAT_EQ(all.request.sampling.min_p, 0.125F);
  EXPECT_EQ(all.request.sampling.seed, 9u);
  EXPECT_THAT(all.request.stop, ElementsAre("x", "y"));
  EXPECT_EQ(all.request.priority, engine::Priority::kBatch);
  EXPECT_EQ(all.request.target_ttft, 250ms);
  EXPECT_TRUE(all.request.ignore_eos);
  EXPECT_NE(all.request.salt, 0u);
  EXPECT_TRUE(all.request.tenant.empty());
}

TEST(FramesMessage, ATenantHasAPrefixCacheOfItsOwn) {
  const auto of = [](const std::string& more) {
    return parsed<Generate>(R"({"id": "a", "prompt": "Once")" + more + "}").request;
  };
  const auto one = of(R"(, "tenant": "one")"), other = of(R"(, "tenant": "other")");
  EXPECT_EQ(one.tenant, "frames:one");
  EXPECT_NE(one.salt, other.salt);
  EXPECT_NE(one.salt, of("").salt);
  EXPECT_NE(one.salt, of(R"(, "tenant": "one", "cache_salt": "s")").salt);
  EXPECT_EQ(one.salt, of(R"(, "tenant": "one")").salt);
  expect_refused(R"({"id": "a", "prompt": "Once", "tenant": ")" + std::string(129, 'x') + "\"}", "a", "tenant",
                 "at most 128 bytes");
}

TEST(FramesMessage, WhatIsLeftOut) {
  const auto least = parsed<Generate>(R"({"id": "a", "prompt": "", "event": null})");
  EXPECT_TRUE(least.stream);
  EXPECT_EQ(least.request.max_tokens, -1);
  EXPECT_TRUE(least.model.empty());
}

TEST(FramesMessage, AConversation) {
  const auto [id, chat] = parsed<Chat>(
      R"({"id": "a", "messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"enable_thinking": false},
          "model": "m", "max_tokens": 7, "seed": 9})");
  EXPECT_EQ(id, "a");
  ASSERT_EQ(chat.input.messages.size(), 1u);
  EXPECT_EQ(chat.input.messages[0]["content"], "Hi");
  EXPECT_EQ(chat.input.variables["enable_thinking"], false);
  EXPECT_EQ(chat.model, "m");
  EXPECT_TRUE(chat.stream);
  EXPECT_TRUE(chat.stored);
  EXPECT_EQ(chat.tool_use, chat::ToolUse::kAuto);
  EXPECT_EQ(chat.generate.id, "a");
  EXPECT_EQ(chat.generate.max_tokens, 7);
  EXPECT_EQ(chat.generate.sampling.seed, 9u);
}

TEST(FramesMessage, AConversationHasToolsAndThinkingAsOverHttp) {
  const auto chat = parsed<Chat>(
                        R"({"id": "a", "messages": [{"role": "user", "content": "Hi"}], "stream": false, "store": false,
          "tools": [{"type": "function", "function": {"name": "read"}}], "parallel_tool_calls": false,
          "tool_choice": {"type": "function", "function": {"name": "read"}}, "thinking_budget": 5})")
                        .request;
  EXPECT_EQ(chat.input.tools.size(), 1u);
  EXPECT_EQ(chat.tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chat.tool_name, "read");
  EXPECT_FALSE(chat.parallel_calls);
  EXPECT_EQ(chat.reasoning.tokens_max, 5);
  EXPECT_FALSE(chat.stream);
  EXPECT_FALSE(chat.stored);
}

TEST(FramesMessage, CancelAndMetrics) {
  EXPECT_EQ(parsed<Cancel>(R"({"id": "a", "event": "cancel"})").id, "a");
  EXPECT_EQ(parsed<Metrics>(R"({"event": "metrics"})").id, "");
  EXPECT_EQ(parsed<Metrics>(R"({"id": "m", "event": "metrics"})").id, "m");
  expect_refused(R"({"event": "cancel"})", "", "id", "id is missing");
  expect_refused(R"({"id": "a", "event": "cancel", "prompt": "x"})", "a", "prompt", "not a known field");
  expect_refused(R"({"id": "a", "event": "pause"})", "a", "event", "\"pause\" is neither cancel nor metrics");
  expect_refused(R"({"id": "a", "event": 3})", "a", "event", "must be a string");
}

TEST(FramesMessage, ErrorsNameTheFieldAndTheRequest) {
  expect_refused("", "", "", "not valid JSON");
  expect_refused("{\"id\": \"a\"", "", "", "not valid JSON");
  expect_refused("[]", "", "", "must be a JSON object");
  expect_refused("{\"id\": \"\xff\"}", "", "", "not valid UTF-8 at byte 8");
  expect_refused(R"({"prompt": "x"})", "", "id", "id is missing");
  expect_refused(R"({"id": 7, "prompt": "x"})", "", "id", "id must be a string");
  expect_refused(R"({"id": ")" + std::string(257, 'x') + R"(", "prompt": "x"})", "", "id", "1 to 256 bytes");
  expect_refused(R"({"id": "a"})", "a", "prompt", "prompt is missing");
  expect_refused(R"({"id": "a", "prompt": "x", "messages": []})", "a", "prompt", "give one of them");
  expect_refused(R"({"id": "a", "prompt": ["x"]})", "a", "prompt", "must be a string, not an array");
  expect_refused(R"({"id": "a", "messages": [{"role": "user"}]})", "a", "messages[0].content", "is missing");
  expect_refused(R"({"id": "a", "prompt": "x", "max_tokens": "x"})", "a", "max_tokens", "must be an integer");
  expect_refused(R"({"id": "a", "prompt": "x", "temperature": 9000})", "a", "temperature", "from 0 to 1000");
  expect_refused(R"({"id": "a", "prompt": "x", "n": 2})", "a", "n", "n is not supported");
  expect_refused(R"({"id": "a", "prompt": "x", "tools": []})", "a", "tools", "not a known field");
  expect_refused(R"({"id": "a", "messages": [{"role": "user", "content": "x"}], "tool_choice": "required"})", "a",
                 "tool_choice", "tools");
}

}  // namespace
}  // namespace cairn::api::frames
