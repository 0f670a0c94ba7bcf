#include "api/ollama/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/ollama/embed.h"
#include "api/ollama/models.h"
#include "api/ollama/pull.h"
#include "api/params/request_context.h"
#include "api/params/request_fields.h"

namespace cairn::api::ollama {
namespace {

using nlohmann::ordered_json;

OllamaRequest chat_of(std::string_view text, RequestContext& context) {
  const auto body = parse_object(text);
  EXPECT_TRUE(body.has_value()) << text;
  auto request = parse_chat(context, *body);
  EXPECT_TRUE(request.has_value()) << text << request.error().text();
  return request ? std::move(*request) : OllamaRequest{};
}

OllamaRequest chat_of(std::string_view text) {
  RequestContext context;
  return chat_of(text, context);
}

OllamaRequest generate_of(std::string_view text) {
  RequestContext context;
  auto request = parse_generate(context, parse_object(text).value());
  EXPECT_TRUE(request.has_value()) << text << request.error().text();
  return request ? std::move(*request) : OllamaRequest{};
}

template <typename Parse>
void expect_refused(Parse parse, std::string_view text, Code code, const std::string& at, const std::string& words) {
  RequestContext context({.strict_fields = true});
  const auto request = parse(context, parse_object(text).value());
  ASSERT_FALSE(request.has_value()) << text;
  EXPECT_EQ(request.error().code, code) << text;
  EXPECT_EQ(request.error().at, at) << text << request.error().message;
  EXPECT_THAT(request.error().message, testing::HasSubstr(words)) << text;
}

std::string with(std::string_view more) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "x"}}], {}}})", more);
}

TEST(OllamaRequest, WhatItDoesNotSayIsAsOllamaHasIt) {
  const auto request = chat_of(with(R"("model": "m")"));
  EXPECT_EQ(request.chat.model, "m");
  EXPECT_TRUE(request.chat.stream);
  EXPECT_FALSE(request.only_load);
  const auto& generate = request.chat.generate;
  EXPECT_EQ(generate.max_tokens, -1);
  EXPECT_FALSE(request.chat.reasoning.enabled.has_value());
}

TEST(OllamaRequest, OptionsAreHonoured) {
  const auto request = chat_of(with(R"("stream": false, "options": {"temperature": 0, "top_k": 7, "top_p": 0.5,
    "min_p": 0.1, "typical_p": 0.7, "seed": 42, "num_predict": 9, "stop": ["a", "b"], "repeat_penalty": 1.3,
    "repeat_last_n": 33, "presence_penalty": 1.5, "frequency_penalty": 1, "num_ctx": 4096, "num_gpu": 99,
    "use_mmap": true, "mirostat": 0, "penalize_newline": true})"));
  EXPECT_FALSE(request.chat.stream);
  const auto& generate = request.chat.generate;
  EXPECT_EQ(generate.max_tokens, 9);
  EXPECT_THAT(generate.stop, testing::ElementsAre("a", "b"));
  EXPECT_EQ(generate.sampling.temperature, 0);
  EXPECT_EQ(generate.sampling.top_k, 7);
  EXPECT_FLOAT_EQ(generate.sampling.top_p, 0.5f);
  EXPECT_FLOAT_EQ(generate.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(generate.sampling.typical_p, 0.7f);
  EXPECT_EQ(generate.sampling.seed, 42u);
  EXPECT_FLOAT_EQ(generate.sampling.repetition_penalty, 1.3f);
  EXPECT_EQ(generate.sampling.penalty_last, 33);
  EXPECT_FLOAT_EQ(generate.sampling.presence_penalty, 1.5f);
  EXPECT_FLOAT_EQ(generate.sampling.frequency_penalty, 1.0f);
  EXPECT_EQ(chat_of(with(R"("options": {"num_predict": -2})")).chat.generate.max_tokens, -1);
  EXPECT_EQ(chat_of(with(R"("options": {"num_predict": 0})")).chat.generate.max_tokens, -1);
}

TEST(OllamaRequest, MinusOneIsAnySeed) {
  const auto seed = [] { return chat_of(with(R"("options": {"seed": -1})")).chat.generate.sampling.seed; };
  EXPECT_NE(seed(), seed());
}

TEST(OllamaRequest, WhatIsNotAvailableIsRefusedByName) {
  const auto refuse = [](std::string_view more, const std::string& at) {
    expect_refused(parse_chat, with(more), Code::kUnsupported, at, at + " is not supported");
  };
  refuse(R"("options": {"tfs_z": 0.5})", "options.tfs_z");
  refuse(R"("options": {"penalize_newline": false})", "options.penalize_newline");
  expect_refused(parse_chat, with(R"("options": {"temprature": 1})"), Code::kInvalidArgument, "options.temprature",
                 "not a known field");
  expect_refused(parse_chat, with(R"("options": {"num_predict": 1.5})"), Code::kInvalidArgument, "options.num_predict",
                 "must be an integer");
  expect_refused(parse_chat, with(R"("options": 1)"), Code::kInvalidArgument, "options", "must be an object");
  expect_refused(parse_chat, with(R"("prompt": "x")"), Code::kInvalidArgument, "prompt", "not a known field");
  expect_refused(parse_chat, with(R"("think": "hard")"), Code::kInvalidArgument, "think", "\"low\"");
  expect_refused(parse_chat, with(R"("top_logprobs": 2)"), Code::kInvalidArgument, "top_logprobs", "needs logprobs");
  chat_of(with(R"("format": "", "keep_alive": "5m", "truncate": true, "shift": false)"));
}

TEST(OllamaRequest, WhatOllamaPassesOverIsTaken) {
  struct Told {
    std::string_view more;
    std::string path;
  };
  for (const Told& told : std::initializer_list<Told>{{R"("options": {"foo": 1})", "options.foo"},
                                                      {R"("options": {"num_ctx": 4096})", "options.num_ctx"},
                                                      {R"("frobnicate": {})", "frobnicate"}}) {
    RequestContext context;
    chat_of(with(told.more), context);
    EXPECT_THAT(context.warnings(), testing::ElementsAre(testing::StartsWith(told.path + " "))) << told.more;
  }
}

TEST(OllamaRequest, WhatStandsBesideTheOptionsLeavesThemAsTheyAre) {
  GenerationDefaults defaults;
  for (const sampling::SamplingParameter& parameter : sampling::sampling_parameters())
    if (parameter.name == "temperature" || parameter.name == "min_p") defaults.sampling.set(parameter, 0.75);
  RequestContext context;
  context.set_model(nullptr, defaults);
  const std::string_view options = R"("options": {"temperature": 0.25, "seed": 7, "ignore_eos": true, "stop": ["a"]})";
  const auto generate = chat_of(with(fmt::format(R"({}, "top_p": 0.5)", options)), context).chat.generate;
  EXPECT_EQ(generate.sampling.top_p, 0.5F);
  EXPECT_EQ(generate.sampling.temperature, 0.25F);
  EXPECT_EQ(generate.sampling.min_p, 0.75F);
  EXPECT_EQ(generate.sampling.seed, 7u);
  EXPECT_TRUE(generate.ignore_eos);
  EXPECT_THAT(generate.stop, testing::ElementsAre("a"));
}

TEST(OllamaRequest, OptionsBesideTheObjectCountWhereItHasNone) {
  const ChatRequest chat =
      chat_of(with(R"("temperature": 0.5, "max_output_tokens": 5, "stop": ["x"], "seed": 7)")).chat;
  EXPECT_FLOAT_EQ(chat.generate.sampling.temperature, 0.5F);
  EXPECT_EQ(chat.generate.max_tokens, 5);
  EXPECT_THAT(chat.generate.stop, testing::ElementsAre("x"));
  EXPECT_EQ(chat.generate.sampling.seed, 7u);
  const ChatRequest both = chat_of(with(R"("temperature": 0.5, "options": {"temperature": 0.2})")).chat;
  EXPECT_FLOAT_EQ(both.generate.sampling.temperature, 0.2F);
}

TEST(OllamaRequest, ToolChoiceIsAsOnChatCompletions) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "add"}}])";
  EXPECT_EQ(chat_of(with(tools + R"(, "tool_choice": "required")")).chat.tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(chat_of(with(tools + R"(, "tool_choice": "auto")")).chat.tool_use, chat::ToolUse::kAuto);
  EXPECT_EQ(chat_of(with(R"("tool_choice": "auto")")).chat.tool_use, chat::ToolUse::kAuto);  // Cline, without tools
}

TEST(OllamaRequest, APullNamesItsModel) {
  RequestContext context;
  const auto pull = [&](std::string_view body) { return parse_pull(context, parse_object(body).value()); };
  EXPECT_EQ(pull(R"({"model": "m"})")->model, "m");
  EXPECT_EQ(pull(R"({"name": "m", "stream": false, "insecure": true})")->model, "m");
  EXPECT_TRUE(pull(R"({"model": "m"})")->stream);
  EXPECT_FALSE(pull(R"({"name": "m", "stream": false})")->stream);
  EXPECT_EQ(pull("{}").error().at, "model");
  const auto deleted = [&](std::string_view body) { return parse_delete(context, parse_object(body).value()); };
  EXPECT_EQ(deleted(R"({"model": "m"})").value(), "m");
  EXPECT_EQ(deleted(R"({"name": "m"})").value(), "m");
  EXPECT_EQ(deleted("{}").error().at, "model");
}

TEST(OllamaRequest, EveryTextOfAnArrayHasAVector) {
  RequestContext context;
  const auto embed = [&](std::string_view body) { return parse_embed(context, parse_object(body).value()).value(); };
  EXPECT_EQ(embed(R"({"input": ["a", "", "b"]})").inputs.size(), 3u);
  EXPECT_EQ(embed(R"({"input": [""]})").inputs.size(), 1u);
  EXPECT_EQ(embed(R"({"input": ""})").inputs.size(), 0u) << "nothing but a load";
}

TEST(OllamaRequest, ThinkIsASwitchOrALevel) {
  EXPECT_EQ(chat_of(with(R"("think": true)")).chat.reasoning.enabled, true);
  EXPECT_EQ(chat_of(with(R"("think": false)")).chat.reasoning.enabled, false);
  const auto low = chat_of(with(R"("think": "low")")).chat.reasoning;
  EXPECT_EQ(low.enabled, true);
  EXPECT_EQ(low.effort, "low");
}

TEST(OllamaRequest, ALastTextOfTheAssistantIsContinued) {
  const auto chat =
      chat_of(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once"}]})").chat;
  EXPECT_EQ(chat.prefill, "Once");
  EXPECT_EQ(chat.input.messages.size(), 1u);
  const auto calls = chat_of(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once",
    "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]})");
  EXPECT_EQ(calls.chat.prefill, "");
  EXPECT_EQ(calls.chat.input.messages.size(), 2u);
}

TEST(OllamaRequest, NothingToAnswerIsALoad) {
  EXPECT_TRUE(chat_of(R"({"model": "m"})").only_load);
  EXPECT_TRUE(chat_of(R"({"model": "m", "messages": [], "keep_alive": 0})").only_load);
  EXPECT_TRUE(generate_of(R"({"model": "m", "prompt": ""})").only_load);
}

TEST(OllamaRequest, APromptIsAConversationUnlessRaw) {
  const auto request = generate_of(R"({"prompt": "Why?", "system": "Be short.", "context": [], "suffix": ""})");
  EXPECT_EQ(request.chat.input.messages.dump(),
            R"([{"role":"system","content":"Be short."},{"role":"user","content":"Why?"}])");
  EXPECT_FALSE(request.raw.has_value());
  const auto raw = generate_of(R"({"prompt": "Once", "raw": true})");
  EXPECT_EQ(raw.raw, "Once");
  EXPECT_TRUE(raw.chat.input.messages.empty());
  for (const std::string name : {"context", "images"}) {
    expect_refused(parse_generate, fmt::format(R"({{"prompt": "x", "{}": ["y"]}})", name), Code::kUnsupported, name,
                   name);
  }
  expect_refused(parse_generate, R"({"prompt": "x", "template": "y"})", Code::kUnsupported, "template", "template");
  expect_refused(parse_generate, R"({"prompt": "x", "system": "y", "raw": true})", Code::kInvalidArgument, "system",
                 "raw");
}

TEST(OllamaRequest, ASuffixFillsInTheMiddleWithoutATemplate) {
  const auto request = generate_of(R"({"prompt": "def f(", "suffix": "return 1"})");
  EXPECT_EQ(request.raw, "def f(");
  EXPECT_EQ(request.suffix, "return 1");
  EXPECT_TRUE(request.chat.input.messages.empty());
  EXPECT_FALSE(generate_of(R"({"prompt": "", "suffix": "return 1"})").only_load);
  expect_refused(parse_generate, R"({"prompt": "x", "suffix": "y", "raw": true})", Code::kInvalidArgument, "raw",
                 "suffix");
  expect_refused(parse_generate, R"({"prompt": "x", "suffix": "y", "system": "z"})", Code::kInvalidArgument, "system",
                 "suffix");
}

std::string messages_of(const std::string& messages) {
  return chat_of(fmt::format(R"({{"messages": {}}})", messages)).chat.input.messages.dump();
}

void expect_message_refused(const std::string& messages, const std::string& at, const std::string& words) {
  RequestContext context;
  const auto request = parse_chat(context, parse_object(fmt::format(R"({{"messages": {}}})", messages)).value());
  ASSERT_FALSE(request.has_value()) << messages;
  EXPECT_EQ(request.error().at, at) << messages;
  EXPECT_THAT(request.error().message, testing::HasSubstr(words)) << messages;
}

const std::string kCalls = R"({"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
  {"function": {"index": 0, "name": "add", "arguments": {"b": 2, "a": 1}}},
  {"function": {"name": "now"}}, {"id": "mine", "function": {"name": "add", "arguments": {}}}]})";

TEST(OllamaMessages, CallsGetIdsAndArgumentsAsText) {
  EXPECT_EQ(messages_of("[" + kCalls + "]"),
            R"([{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[)"
            R"({"id":"call00001","type":"function","function":{"name":"add","arguments":"{\"b\":2,\"a\":1}"}},)"
            R"({"id":"call00002","type":"function","function":{"name":"now","arguments":"{}"}},)"
            R"({"id":"mine","type":"function","function":{"name":"add","arguments":"{}"}}]}])");
}

std::vector<std::string> answered(const std::string& results) {
  std::vector<std::string> ids;
  const auto messages = ordered_json::parse(messages_of("[" + kCalls + "," + results + "]"));
  for (size_t i = 1; i < messages.size(); ++i) ids.push_back(messages[i]["tool_call_id"]);
  return ids;
}

TEST(OllamaMessages, ResultsFindTheirCalls) {
  using testing::ElementsAre;
  const std::string any = R"({"role": "tool", "content": "x"})";
  EXPECT_THAT(answered(any + "," + any + "," + any), ElementsAre("call00001", "call00002", "mine"));
  EXPECT_THAT(answered(R"({"role": "tool", "tool_name": "now", "content": "x"},
                          {"role": "tool", "tool_name": "add", "content": "x"},
                          {"role": "tool", "name": "add", "content": "x"})"),
              ElementsAre("call00002", "call00001", "mine"));
  EXPECT_THAT(answered(R"({"role": "tool", "tool_call_id": "mine", "content": "x"},
                          {"role": "tool", "tool_name": "add", "content": "x"})"),
              ElementsAre("mine", "call00001"));
}

TEST(OllamaMessages, HistoryIsData) {
  EXPECT_EQ(messages_of(R"([{"role": "tool", "content": "x"}])"),
            R"([{"role":"tool","content":"x","tool_call_id":"call00001"}])");
  EXPECT_THAT(answered(R"({"role": "tool", "tool_name": "other", "content": "x"},
                          {"role": "tool", "tool_call_id": "theirs", "content": "x"})"),
              testing::ElementsAre("call00004", "theirs"));
  EXPECT_THAT(messages_of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}])"),
              testing::HasSubstr(R"("arguments":"[1]")"));
  EXPECT_EQ(messages_of(R"([{"role": "boss", "content": "x"}])"), R"([{"role":"boss","content":"x"}])");
  EXPECT_EQ(messages_of(R"([{"role": "tool", "tool_call_id": "a", "content": "Look:", "images": ["abc"]},
                            {"role": "user", "images": ["abc", "def"]}])"),
            R"([{"role":"tool","content":"Look:\n[image: this model reads text only]","tool_call_id":"a"},)"
            R"({"role":"user","content":"[image: this model reads text only]\n[image: this model reads text only]"}])");
}

TEST(OllamaMessages, ErrorsSayWhere) {
  expect_message_refused("1", "messages", "must be an array");
  expect_message_refused("[1]", "messages[0]", "must be an object");
  expect_message_refused(R"([{"role": "user", "content": []}])", "messages[0].content", "must be a string");
  expect_message_refused(R"([{"role": "user", "content": "x", "images": ["abc"]}])", "messages[0].images", "text only");
  expect_message_refused(R"([{"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}])",
                         "messages[0].tool_calls[0].function.name", "must be a string");
  messages_of(R"([{"role": "user", "content": "x", "images": [], "tool_calls": null}])");
}

TEST(OllamaRequest, WhatBelongsIntoOptionsCountsBesideThemToo) {
  const auto generate =
      chat_of(with(R"("bad_words": ["cat"], "num_predict": 5, "repeat_penalty": 1.5, "logit_bias": {"3": 1},
    "stop_sequences": ["x"], "do_sample": false)"))
          .chat.generate;
  EXPECT_THAT(generate.banned_texts, testing::ElementsAre("cat"));
  EXPECT_EQ(generate.max_tokens, 5);
  EXPECT_EQ(generate.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(generate.sampling.logit_bias.size(), 1u);
  EXPECT_THAT(generate.stop, testing::ElementsAre("x"));
  EXPECT_EQ(generate.sampling.temperature, 0);
  // Options come first, whatever name they have it by.
  EXPECT_EQ(chat_of(with(R"("repetition_penalty": 1.5, "options": {"repeat_penalty": 1.25})"))
                .chat.generate.sampling.repetition_penalty,
            1.25f);
  EXPECT_EQ(chat_of(with(R"("max_tokens": 5, "options": {"num_predict": 6})")).chat.generate.max_tokens, 6);
  expect_refused(parse_chat, with(R"("ignore_eos": true)"), Code::kUnsupported, "ignore_eos", "belongs into options");
}

TEST(OllamaRequest, AFormInAnotherPlaceIsRefusedByName) {
  for (const std::string body :
       {R"("response_format": {"type": "json_object"})", R"("json_schema": {})", R"("grammar": "root ::= \"x\"")"}) {
    const std::string name = body.substr(1, body.find('"', 1) - 1);
    expect_refused(parse_chat, with(body), Code::kUnsupported, name, "use format");
    expect_refused(parse_generate, fmt::format(R"({{"prompt": "x", {}}})", body), Code::kUnsupported, name,
                   "use format");
    expect_refused(parse_chat, with("\"options\": {" + body + "}"), Code::kUnsupported, "options." + name,
                   "use format");
  }
  expect_refused(parse_chat, with(R"("options": {"format": "json"})"), Code::kUnsupported, "options.format",
                 "beside options");
  expect_refused(parse_chat, with(R"("format": {"type": "object", "schema": {"type": "null"}})"),
                 Code::kInvalidArgument, "format", "the one in its member schema");
}

}  // namespace
}  // namespace cairn::api::ollama
