#include "api/anthropic/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/params/request_context.h"

namespace cairn::api::anthropic {
namespace {

using nlohmann::ordered_json;

/// A request that is fine, with the fields of `more`.
Result<MessagesRequest> parse(RequestContext& context, std::string_view more, Purpose purpose = Purpose::kAnswer) {
  ordered_json body = {{"max_tokens", 100},
                       {"messages", ordered_json::parse(R"([{"role": "user", "content": "Hi"}])")}};
  body.update(ordered_json::parse(more));
  return parse_messages(context, body, purpose);
}

Result<MessagesRequest> parse(std::string_view more, Purpose purpose = Purpose::kAnswer) {
  RequestContext context;
  return parse(context, more, purpose);
}

MessagesRequest request_of(std::string_view more) {
  auto parsed = parse(more);
  EXPECT_TRUE(parsed.has_value()) << more << parsed.error().text();
  return parsed ? std::move(*parsed) : MessagesRequest{};
}

void expect_request_refused(std::string_view more, const std::string& at, const std::string& words,
                            Code code = Code::kInvalidArgument) {
  RequestContext context({.strict_fields = true});
  const auto parsed = parse(context, more);
  ASSERT_FALSE(parsed.has_value()) << more;
  EXPECT_EQ(parsed.error().code, code) << more;
  EXPECT_EQ(parsed.error().at, at) << parsed.error().message;
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(words));
  EXPECT_THAT(parsed.error().message, testing::HasSubstr(at));
}

constexpr std::string_view kTools =
    R"("tools": [{"name": "weather", "description": "Tells it.", "input_schema": {"type": "object"}},
                 {"type": "custom", "name": "time", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"},
                  "input_examples": [{"zone": "UTC"}], "strict": true, "defer_loading": false}])";

std::string with_tools(std::string_view choice) { return fmt::format("{{{}, \"tool_choice\": {}}}", kTools, choice); }

TEST(MessagesRequest, HasTheSamplingOfTheModelAndOfTheRequest) {
  const auto plain = request_of("{}").chat;
  EXPECT_EQ(plain.generate.max_tokens, 100);
  EXPECT_FALSE(plain.stream);
  EXPECT_FALSE(plain.reasoning.enabled.has_value());
  EXPECT_EQ(plain.input.messages, ordered_json::parse(R"([{"role": "user", "content": "Hi"}])"));
  EXPECT_TRUE(plain.input.tools.is_null());
  const auto chat =
      request_of(R"({"model": "m", "stream": true, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7,
      "stop_sequences": ["a", "b"], "metadata": {"user_id": "x", "target_ttft_ms": 250}, "service_tier": "standard_only",
      "speed": "standard", "mcp_servers": [], "cache_control": {"type": "ephemeral", "ttl": "1h"}})")
          .chat;
  EXPECT_EQ(chat.model, "m");
  EXPECT_TRUE(chat.stream);
  EXPECT_FLOAT_EQ(chat.generate.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(chat.generate.sampling.top_p, 0.9F);
  EXPECT_EQ(chat.generate.sampling.top_k, 5);
  EXPECT_EQ(chat.generate.sampling.seed, 7u);
  EXPECT_THAT(chat.generate.stop, testing::ElementsAre("a", "b"));
  EXPECT_EQ(chat.generate.target_ttft, std::chrono::milliseconds(250));
}

TEST(MessagesRequest, NamesTheFieldThatItCannotUse) {
  expect_request_refused(R"({"max_tokens": null})", "max_tokens", "is missing");
  expect_request_refused(R"({"max_tokens": -2})", "max_tokens", "from -1");
  expect_request_refused(R"({"max_tokens": "1"})", "max_tokens", "must be an integer, not a string");
  expect_request_refused(R"({"messages": null})", "messages", "is missing");
  expect_request_refused(R"({"temperature": 3000})", "temperature", "from 0 to 1000");
  expect_request_refused(R"({"stop_sequences": "x"})", "stop_sequences", "must be an array of at most 256 strings");
  expect_request_refused(R"({"stop_sequences": ["x", 1]})", "stop_sequences[1]", "at most 1024 bytes");
  expect_request_refused(R"({"service_tier": "gold"})", "service_tier", "\"gold\"");
  expect_request_refused(R"({"cache_control": {"type": "forever"}})", "cache_control", "ephemeral");
  expect_request_refused(R"({"frobnicate": 1})", "frobnicate", "not a known field");
  for (const std::string field : {"container", "thread", "compaction", "json_schema", "n"}) {
    expect_request_refused(fmt::format(R"({{"{}": ["x"]}})", field), field, "is not supported", Code::kUnsupported);
  }
  expect_request_refused(R"({"speed": "fast"})", "speed", "one speed", Code::kUnsupported);
  expect_request_refused(R"({"mcp_servers": [{"url": "x"}]})", "mcp_servers", "run the tools yourself",
                         Code::kUnsupported);
}

TEST(MessagesRequest, MaxTokensMayBeNoughtOrMissingToCount) {
  const auto warm = request_of(R"({"max_tokens": 0})");
  EXPECT_EQ(warm.chat.generate.max_tokens, 0);
  EXPECT_TRUE(parse(R"({"max_tokens": null})", Purpose::kCount).has_value());
}

TEST(MessagesRequest, KnowsWhetherAnythingMarksWhatIsToBeCached) {
  EXPECT_FALSE(request_of("{}").marks_cache);
  EXPECT_TRUE(request_of(R"({"cache_control": {"type": "ephemeral"}})").marks_cache);
  EXPECT_TRUE(
      request_of(R"({"system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]})").marks_cache);
  EXPECT_TRUE(request_of(R"({"messages": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
      {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]})")
                  .marks_cache);
}

TEST(MessagesRequest, ThinkingIsEnabledWithABudgetOrAdaptiveOrDisabled) {
  const auto enabled = request_of(R"({"thinking": {"type": "enabled", "budget_tokens": 2000}})");
  EXPECT_EQ(enabled.chat.reasoning.enabled, true);
  EXPECT_EQ(enabled.chat.reasoning.tokens_max, 2000);
  EXPECT_TRUE(enabled.shows_thinking);
  const auto adaptive =
      request_of(R"({"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "max"}})");
  EXPECT_EQ(adaptive.chat.reasoning.enabled, true);
  EXPECT_FALSE(adaptive.chat.reasoning.tokens_max.has_value());
  EXPECT_EQ(adaptive.chat.reasoning.effort, "max");
  EXPECT_FALSE(adaptive.shows_thinking);
  EXPECT_EQ(request_of(R"({"thinking": {"type": "disabled"}})").chat.reasoning.enabled, false);
  EXPECT_FALSE(request_of(R"({"output_config": {"effort": "low"}})").chat.reasoning.enabled.has_value());
  expect_request_refused(R"({"thinking": "on"})", "thinking", "must be an object, not a string");
  expect_request_refused(R"({"thinking": {}})", "thinking.type", "must be \"enabled\", \"adaptive\"");
  expect_request_refused(R"({"thinking": {"type": "always"}})", "thinking.type", "not \"always\"");
  expect_request_refused(R"({"thinking": {"type": "enabled"}})", "thinking.budget_tokens", "is missing");
  expect_request_refused(R"({"thinking": {"type": "enabled", "budget_tokens": 0}})", "thinking.budget_tokens",
                         "from 1");
  expect_request_refused(R"({"thinking": {"type": "disabled", "budget_tokens": 5}})", "thinking.budget_tokens",
                         "not a known field");
  expect_request_refused(R"({"thinking": {"type": "adaptive", "display": 1}})", "thinking.display", "must be a string");
  expect_request_refused(R"({"output_config": {"effort": "none"}})", "output_config.effort",
                         "low, medium, high, xhigh, max");
}

TEST(MessagesRequest, AFormInAnotherPlaceIsRefusedByName) {
  expect_request_refused(R"({"output_config": {"schema": {"type": "null"}}})", "output_config.schema",
                         "goes into output_config.format");
  expect_request_refused(R"({"output_config": {"type": "json_schema", "json_schema": {"schema": {}}}})",
                         "output_config.type", "goes into output_config.format");
}

// What Claude Code and Anthropic's libraries send by themselves (their types name the others).
TEST(MessagesRequest, FieldsThatClientsCannotLeaveOutAreTakenAndTold) {
  EXPECT_TRUE(request_of(R"({"thinking": {"type": "adaptive", "display": "updates"}})").shows_thinking);
  EXPECT_EQ(request_of(R"({"thinking": {"type": "between_tools"}})").chat.reasoning.enabled, true);
  EXPECT_THAT(request_of(R"({"stop_sequences": ["", "x", ""]})").chat.generate.stop, testing::ElementsAre("x"));
  EXPECT_EQ(request_of(R"({"max_tokens": -1})").chat.generate.max_tokens, -1);
  EXPECT_EQ(request_of(R"({"reasoning_effort": "low"})").chat.reasoning.effort, "low");
  EXPECT_EQ(request_of(R"({"chat_template_kwargs": {"a": 1}})").chat.input.variables["a"], 1);
  struct Told {
    std::string_view more;
    std::string path;
  };
  for (const Told& told : std::initializer_list<Told>{
           {R"({"thinking": {"type": "adaptive", "display": "updates"}})", "thinking.display"},
           {R"({"thinking": {"type": "adaptive", "block_binding": {}}})", "thinking.block_binding"},
           {R"({"output_config": {"task_budget": {"type": "tokens", "total": 5}}})", "output_config.task_budget"},
           {R"({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}})",
            "context_management.edits[0]"},
           {R"({"context_management": {"edits": [{"type": "clear_thinking_20251015",
                "keep": {"type": "thinking_turns", "value": 1}}]}})",
            "context_management.edits[0]"},
           {R"({"user_profile_id": "u"})", "user_profile_id"},
           {R"({"workspace_id": "w"})", "workspace_id"},
           {R"({"billing_policy": {}})", "billing_policy"},
           {R"({"fallbacks": ["m"]})", "fallbacks"},
           {R"({"diagnostics": {}})", "diagnostics"},
           {R"({"frobnicate": 1})", "frobnicate"}}) {
    RequestContext context;
    EXPECT_TRUE(parse(context, told.more).has_value()) << told.more;
    EXPECT_THAT(context.warnings(), testing::ElementsAre(testing::StartsWith(told.path + " "))) << told.more;
  }
}

TEST(MessagesRequest, OtherEditsOfTheContextAreRefused) {
  request_of(R"({"context_management": {"edits": []}})");
  request_of(R"({"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}})");
  expect_request_refused(R"({"context_management": {"edits": [{"type": "compact_20260112"}]}})",
                         "context_management.edits[0]", "only clear_thinking_20251015", Code::kUnsupported);
  expect_request_refused(R"({"context_management": {"edits": 5}})", "context_management.edits", "must be an array");
}

TEST(MessagesRequest, ToolsTakeOpenAisShape) {
  const auto tools = request_of(fmt::format("{{{}}}", kTools)).chat.input.tools;
  EXPECT_EQ(tools, ordered_json::parse(R"([
    {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "time", "description": "",
     "parameters": {"type": "object", "examples": [{"zone": "UTC"}]}, "strict": true}}])"));
  EXPECT_TRUE(request_of(R"({"tools": []})").chat.input.tools.is_null());
  expect_request_refused(R"({"tools": {}})", "tools", "must be an array");
  expect_request_refused(R"({"tools": ["x"]})", "tools[0]", "must be an object, not a string");
  expect_request_refused(R"({"tools": [{"input_schema": {}}]})", "tools[0].name", "1 to 256 bytes");
  expect_request_refused(R"({"tools": [{"name": "f"}]})", "tools[0].input_schema", "is missing");
  expect_request_refused(R"({"tools": [{"name": "f", "input_schema": []}]})", "tools[0].input_schema", "not an array");
  expect_request_refused(R"({"tools": [{"name": "f", "input_schema": {}, "description": 5}]})", "tools[0].description",
                         "a string");
  expect_request_refused(R"({"tools": [{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}]})",
                         "tools[1].name", "another tool");
}

TEST(MessagesRequest, ToolsOfAnthropicsServersAreLeftOutBesideOthers) {
  const auto tools = request_of(R"({"tools": [{"type": "web_search_20250305", "name": "web_search"},
                                              {"name": "f", "input_schema": {}}]})")
                         .chat.input.tools;
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(tools[0]["function"]["name"], "f");
  expect_request_refused(R"({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})", "tools[0].type",
                         "runs no tools of its own", Code::kUnsupported);
}

TEST(MessagesRequest, ToolChoiceIsAutoAnyToolOrNone) {
  const auto chat = [&](std::string_view choice) { return request_of(with_tools(choice)).chat; };
  EXPECT_EQ(chat(R"({"type": "auto"})").tool_use, chat::ToolUse::kAuto);
  EXPECT_TRUE(chat(R"({"type": "auto"})").parallel_calls);
  EXPECT_FALSE(chat(R"({"type": "auto", "disable_parallel_tool_use": true})").parallel_calls);
  EXPECT_EQ(chat(R"({"type": "none"})").tool_use, chat::ToolUse::kNone);
  EXPECT_EQ(chat(R"({"type": "any"})").tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chat(R"({"type": "any"})").tool_name, "");
  EXPECT_EQ(
      request_of(R"({"tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "any"}})").chat.tool_name,
      "f");
  EXPECT_EQ(chat(R"({"type": "tool", "name": "time"})").tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chat(R"({"type": "tool", "name": "time"})").tool_name, "time");
  expect_request_refused(with_tools("\"any\""), "tool_choice", "must be an object, not a string");
  expect_request_refused(with_tools("{}"), "tool_choice.type", "must be");
  expect_request_refused(with_tools(R"({"type": "tool", "name": "nought"})"), "tool_choice.name",
                         "\"nought\" is none of the tools");
  expect_request_refused(with_tools(R"({"type": "tool"})"), "tool_choice.name", "none of the tools");
  expect_request_refused(with_tools(R"({"type": "none", "disable": true})"), "tool_choice.disable",
                         "not a known field");
  expect_request_refused(R"({"tool_choice": {"type": "any"}})", "tool_choice.type", "there are no tools");
  expect_request_refused(
      fmt::format(R"({{{}, "tool_choice": {{"type": "any"}}, "messages": [{{"role": "user", "content": "Hi"}},
      {{"role": "assistant", "content": "It is"}}]}})",
                  kTools),
      "tool_choice", "begun it with text");
}

}  // namespace
}  // namespace cairn::api::anthropic
