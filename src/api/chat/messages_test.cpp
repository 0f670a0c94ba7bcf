#include "api/chat/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/printable.h"

namespace cairn::api {
namespace {

using nlohmann::ordered_json;

ordered_json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
ordered_json calls(std::initializer_list<std::string> ids) {
  ordered_json message = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", ordered_json::array()}};
  for (const auto& id : ids) {
    message["tool_calls"].push_back(
        {{"id", id}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}});
  }
  return message;
}
ordered_json result(const std::string& id) { return {{"role", "tool"}, {"tool_call_id", id}, {"content", "4"}}; }
ordered_json function(const std::string& name) { return {{"type", "function"}, {"function", {{"name", name}}}}; }

Result<ordered_json> read(const ordered_json& messages) {
  const ordered_json body = {{"messages", messages}};
  RequestContext context;
  RequestFields fields(context, body);
  ordered_json read = read_messages(fields);
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return read;
}

void expect_refused(const ordered_json& messages, const std::string& at, const std::string& words) {
  const auto done = read(messages);
  ASSERT_FALSE(done.has_value()) << messages;
  EXPECT_EQ(done.error().code, Code::kInvalidArgument);
  EXPECT_EQ(done.error().at, at);
  EXPECT_THAT(done.error().message, testing::HasSubstr(words));
}

TEST(ReadMessages, ErrorsNameThePlace) {
  expect_refused(7, "messages", "must be an array");
  expect_refused(ordered_json::array(), "messages", "1 to 16384");
  expect_refused(ordered_json::array({5}), "messages[0]", "must be an object, not a number");
  expect_refused({{{"content", "x"}}}, "messages[0].role", "is missing");
  expect_refused({user("a"), {{"role", std::string(65, 'r')}, {"content", "x"}}}, "messages[1].role", "1 to 64 bytes");
  expect_refused({{{"role", 5}}}, "messages[0].role", "not a string");
  expect_refused({{{"role", "user"}}}, "messages[0].content", "is missing");
  expect_refused({{{"role", "user"}, {"content", 5}}}, "messages[0].content", "not a number");
  expect_refused({{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}, "messages[0].content[0].type",
                 "reads text only");
  expect_refused({{{"role", "user"}, {"content", {{{"type", "text"}, {"text", 5}}}}}}, "messages[0].content[0].text",
                 "must be a string");
}

TEST(ReadMessages, FunctionCallsOfOldConversationsAreCallsOfTools) {
  const ordered_json call = {
      {"role", "assistant"}, {"content", nullptr}, {"function_call", {{"name", "f"}, {"arguments", "{\"a\":1}"}}}};
  const ordered_json answer = {{"role", "function"}, {"name", "f"}, {"content", "4"}};
  const auto done = read({user("a"), call, answer, call, answer});
  ASSERT_TRUE(done.has_value());
  for (const size_t at : {1, 3}) {
    const ordered_json& called = (*done)[at]["tool_calls"][0];
    EXPECT_EQ(called["function"]["arguments"], "{\"a\":1}");
    EXPECT_FALSE((*done)[at].contains("function_call"));
    EXPECT_EQ((*done)[at + 1]["role"], "tool");
    EXPECT_EQ((*done)[at + 1]["tool_call_id"], called["id"]);
  }
  EXPECT_NE((*done)[1]["tool_calls"][0]["id"], (*done)[3]["tool_calls"][0]["id"]);
  ordered_json unused = calls({"1"});
  unused["function_call"] = nullptr;
  const auto both = read({user("a"), unused, result("1")});
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ((*both)[1]["tool_calls"][0]["id"], "1");
  expect_refused({user("a"), {{"role", "assistant"}, {"function_call", {{"arguments", "{}"}}}}},
                 "messages[1].tool_calls[0].function.name", "is missing");
}

TEST(ReadMessages, ResultsAnswerCalls) {
  EXPECT_TRUE(read({user("a"), calls({"1", "2"}), result("2"), result("1"), user("b")}));
  EXPECT_TRUE(read({user("a"), calls({"1"}), user("never mind")}));
  // Ids may come again in a later turn: some models number their calls.
  EXPECT_TRUE(read({user("a"), calls({"1"}), result("1"), calls({"1"}), result("1")}));
  // What other servers and clients leave behind.
  EXPECT_TRUE(read({user("a"), result("1")}));
  EXPECT_TRUE(read({calls({"1"}), result("2")}));
  EXPECT_TRUE(read({calls({"1"}), result("1"), result("1")}));
  EXPECT_TRUE(read(ordered_json::array({calls({"1", "1"})})));
  const ordered_json nameless = {{"role", "tool"}, {"content", nullptr}};
  const auto numbered = read({calls({"", "b"}), nameless, nameless, nameless});
  ASSERT_TRUE(numbered.has_value()) << numbered.error().text();
  EXPECT_EQ((*numbered)[0]["tool_calls"][0]["id"], "call00001");
  EXPECT_EQ((*numbered)[1]["tool_call_id"], "call00001");
  EXPECT_EQ((*numbered)[1]["content"], "");
  EXPECT_EQ((*numbered)[2]["tool_call_id"], "b");
  EXPECT_EQ((*numbered)[3]["tool_call_id"], "call00003");
  ordered_json bad = calls({"1"});
  bad["tool_calls"][0]["function"]["arguments"] = {1};
  EXPECT_EQ(read(ordered_json::array({bad})).value()[0]["tool_calls"][0]["function"]["arguments"], "[1]");
  bad["tool_calls"][0]["function"] = 5;
  expect_refused(ordered_json::array({bad}), "messages[0].tool_calls[0].function", "not an object");
  bad["tool_calls"] = 5;
  expect_refused(ordered_json::array({bad}), "messages[0].tool_calls", "must be an array");
}

TEST(ReadMessages, HistoryIsData) {
  ordered_json broken = calls({"1"});
  broken["tool_calls"][0]["function"]["arguments"] = "{\"a\": ";
  const auto done = read({user("a"), broken, result("1"), {{"role", "assistant"}, {"content", nullptr}}});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  EXPECT_EQ((*done)[1]["tool_calls"][0]["function"]["arguments"], "{\"a\": ");
  EXPECT_EQ((*done)[3]["content"], "");
  const auto more = read({{{"role", "developer"}, {"content", "x"}},
                          {{"role", "assistant"}, {"content", "y"}, {"reasoning", "z"}, {"tool_calls", nullptr}}});
  ASSERT_TRUE(more.has_value());
  EXPECT_EQ((*more)[0]["role"], "system");
  EXPECT_EQ((*more)[1]["reasoning_content"], "z");
  EXPECT_FALSE((*more)[1].contains("tool_calls"));
}

TEST(ReadMessages, PartsThatAreNoTextBecomeANoteInWhatToolsGive) {
  const ordered_json image = {{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64,AAAA"}}}};
  const ordered_json text = {{"type", "text"}, {"text", "x"}};
  const std::string note = "[image: image/png, this model reads text only]";
  ordered_json with_image = result("1");
  with_image["content"] = {text, image};
  const ordered_json attached = {{"role", "user"}, {"content", {image, image}}};
  const auto done = read({user("a"), calls({"1"}), with_image, attached});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  EXPECT_EQ((*done)[2]["content"][1]["text"], note);
  EXPECT_EQ((*done)[3]["content"][1]["text"], note);
  expect_refused({user("a"), attached}, "messages[1].content[0].type", "reads text only");
  expect_refused({user("a"), calls({"1"}), result("1"), {{"role", "user"}, {"content", {text, image}}}},
                 "messages[3].content[1].type", "reads text only");
  const auto of_model = read({user("a"), {{"role", "assistant"}, {"content", {{{"type", "odd"}}, text}}}});
  ASSERT_TRUE(of_model.has_value());
  EXPECT_EQ((*of_model)[1]["content"], ordered_json::array({text}));
}

TEST(ReadMessages, CallsOfCustomToolsAreFunctionsOfOneString) {
  const ordered_json call = {{"id", "1"}, {"type", "custom"}, {"custom", {{"name", "f"}, {"input", "raw"}}}};
  const auto done = read({user("a"), {{"role", "assistant"}, {"tool_calls", {call}}}, result("1")});
  ASSERT_TRUE(done.has_value()) << done.error().text();
  EXPECT_EQ((*done)[1]["tool_calls"][0]["function"], (ordered_json{{"name", "f"}, {"arguments", {{"input", "raw"}}}}));
}

TEST(ReadChatInput, ALastAnswerIsTheBeginningOfTheNext) {
  const auto read_input = [](ordered_json body) {
    RequestContext context;
    RequestFields fields(context, body);
    std::pair<chat::ChatInput, std::string> made;
    made.first = read_chat_input(fields, made.second);
    const auto done = fields.finish();
    EXPECT_TRUE(done.has_value()) << done.error().text();
    return made;
  };
  const ordered_json begun = {user("Hi"), {{"role", "assistant"}, {"content", "Once upon"}}};
  const auto [input, prefill] = read_input({{"messages", begun}});
  EXPECT_EQ(prefill, "Once upon");
  EXPECT_EQ(input.messages.size(), 1u);
  EXPECT_TRUE(input.add_generation_prompt);
  const auto vllm =
      read_input({{"messages", begun}, {"continue_final_message", true}, {"add_generation_prompt", false}});
  EXPECT_EQ(vllm.second, "Once upon");
  EXPECT_TRUE(vllm.first.add_generation_prompt);
  EXPECT_EQ(read_input({{"messages", begun}, {"continue_final_message", false}}).first.messages.size(), 2u);
  const ordered_json both = {{"messages", begun}, {"continue_final_message", true}, {"add_generation_prompt", true}};
  RequestContext context;
  RequestFields contradicting(context, both);
  std::string none;
  read_chat_input(contradicting, none);
  EXPECT_EQ(contradicting.finish().error().at, "continue_final_message");
  const ordered_json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  EXPECT_EQ(read_input({{"messages", begun}, {"tools", tools}}).second, "") << "an agent waits for a new turn";
  EXPECT_NE(read_input({{"messages", begun}, {"tools", tools}, {"continue_final_message", true}}).second, "");
  const auto closed = read_input({{"messages", begun}, {"add_generation_prompt", false}});
  EXPECT_EQ(closed.first.messages.size(), 2u);
  EXPECT_FALSE(closed.first.add_generation_prompt);
  const ordered_json parts = {user("Hi"), {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", "a"}}}}}};
  EXPECT_EQ(read_input({{"messages", parts}}).second, "a");
  // Calls are no beginning of a text, and a lone answer answers nobody.
  EXPECT_EQ(read_input({{"messages", {user("Hi"), calls({"1"})}}}).first.messages.size(), 2u);
  EXPECT_EQ(read_input({{"messages", {begun[1]}}}).first.messages.size(), 1u);
}

struct Choice {
  Result<void> done;
  ChatRequest request;
};
Choice choose(const ordered_json& body) {
  RequestContext context;
  RequestFields fields(context, body);
  Choice choice;
  choice.request.input.tools = read_tools(fields);
  read_tool_choice(fields, choice.request);
  choice.done = fields.finish();
  return choice;
}
std::string refused_at(const ordered_json& body) {
  const auto choice = choose(body);
  return choice.done ? "nothing" : choice.done.error().at;
}

TEST(ReadTemplateVariables, AreTheClientsOwnAndNoneOfTheServers) {
  const auto read = [](const ordered_json& given) -> Result<ordered_json> {
    const ordered_json body = {{"chat_template_kwargs", given}};
    RequestContext context;
    RequestFields fields(context, body);
    ordered_json variables = ordered_json::object();
    read_template_variables(fields, variables);
    CAIRN_TRY_VOID(fields.finish());
    return variables;
  };
  EXPECT_EQ(read({{"enable_thinking", false}, {"documents", {"a"}}}).value(),
            (ordered_json{{"enable_thinking", false}, {"documents", {"a"}}}));
  for (const std::string name :
       {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "raise_exception", "strftime_now"}) {
    const auto refused = read({{"x", 1}, {name, "y"}});
    ASSERT_FALSE(refused.has_value()) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().at, "chat_template_kwargs." + name);
  }
  EXPECT_EQ(read(5).error().at, "chat_template_kwargs");
  ordered_json many = ordered_json::object();
  for (size_t i = 0; i <= kTemplateVariablesMax; ++i) many["v" + std::to_string(i)] = 1;
  EXPECT_EQ(read(many).error().at, "chat_template_kwargs");
}

TEST(ReadTools, AreFunctionsWithNames) {
  EXPECT_EQ(refused_at({{"tools", 5}}), "tools");
  EXPECT_EQ(refused_at({{"tools", {5}}}), "tools[0]");
  EXPECT_EQ(refused_at({{"tools", {{{"type", "web_search"}}}}}), "tools[0].type");
  EXPECT_EQ(refused_at({{"tools", {{{"type", "function"}}}}}), "tools[0].function");
  EXPECT_EQ(refused_at({{"tools", {function("")}}}), "tools[0].function.name");
  EXPECT_EQ(refused_at({{"tools", {function(std::string(257, 'a'))}}}), "tools[0].function.name");
  EXPECT_EQ(refused_at({{"tools", {function("a"), function("a")}}}), "tools[1].function.name");
  EXPECT_EQ(refused_at({{"tools", {{{"type", "function"}, {"function", {{"name", "a"}, {"parameters", "x"}}}}}}}),
            "tools[0].function.parameters");
  EXPECT_EQ(refused_at({{"tools", ordered_json(kToolsMax + 1, function("a"))}}), "tools");
  const auto choice = choose({{"tools", {function("a")}}});
  ASSERT_TRUE(choice.done);
  EXPECT_TRUE(choice.request.input.tools[0]["function"]["parameters"].is_object());
  EXPECT_TRUE(choose({{"tools", ordered_json::array()}}).request.input.tools.is_null());
}

TEST(ReadTools, NamesThatNoCallCanHaveAndSchemasUnderAnotherNameAreRefused) {
  const auto refused_at = [](const ordered_json& tool) {
    const ordered_json body = {{"tools", {tool}}};
    RequestContext context;
    RequestFields fields(context, body);
    read_tools(fields);
    const auto done = fields.finish();
    return done ? std::string() : done.error().at;
  };
  for (const auto* name : {"a\"b", "a\\b", "a\nb", "<|im_end|>", "a>b"})
    EXPECT_EQ(refused_at(function(name)), "tools[0].function.name") << name;
  EXPECT_EQ(refused_at(function("été.f-1")), "");
  ordered_json tool = function("f");
  tool["function"]["inputSchema"] = {{"type", "object"}};
  EXPECT_EQ(refused_at(tool), "tools[0].function.parameters");
}

TEST(ReadTools, TheChoiceIsAWordOrAName) {
  const ordered_json tools = {function("a"), function("b")};
  const auto with = [&](const ordered_json& choice) { return ordered_json{{"tools", tools}, {"tool_choice", choice}}; };
  EXPECT_EQ(choose(with("auto")).request.tool_use, chat::ToolUse::kAuto);
  EXPECT_EQ(choose(with("none")).request.tool_use, chat::ToolUse::kNone);
  EXPECT_EQ(choose(with("required")).request.tool_use, chat::ToolUse::kRequired);
  const auto named = choose(with({{"type", "function"}, {"function", {{"name", "b"}}}}));
  EXPECT_EQ(named.request.tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(named.request.tool_name, "b");
  EXPECT_EQ(refused_at(with({{"type", "function"}, {"function", {{"name", "c"}}}})), "tool_choice.function.name");
  EXPECT_EQ(refused_at(with({{"type", 5}})), "tool_choice");
  EXPECT_EQ(choose(with("any")).request.tool_use, chat::ToolUse::kRequired);
  EXPECT_EQ(choose(with({{"type", "function"}, {"name", "b"}})).request.tool_name, "b");
  EXPECT_EQ(refused_at(with("some")), "tool_choice");
  EXPECT_EQ(refused_at({{"tool_choice", "required"}}), "tool_choice");
  EXPECT_FALSE(choose({{"tools", tools}, {"parallel_tool_calls", false}}).request.parallel_calls);
}

TEST(ReadReasoning, EffortsAndBudgets) {
  const auto read = [](const ordered_json& body) {
    RequestContext context;
    RequestFields fields(context, body);
    chat::ReasoningOptions options;
    read_reasoning(fields, options);
    EXPECT_EQ(fields.finish().has_value(), !body.contains("bad"));
    return options;
  };
  EXPECT_EQ(read({{"reasoning_effort", "none"}}).enabled, false);
  EXPECT_EQ(read({{"reasoning_effort", "low"}}).enabled, true);
  EXPECT_EQ(read({{"reasoning_effort", "low"}}).effort, "low");
  EXPECT_EQ(read({{"thinking_budget", 100}}).tokens_max, 100);
  EXPECT_EQ(read({{"thinking_budget_tokens", 64}}).tokens_max, 64);
  EXPECT_EQ(read({{"reasoning_budget_tokens", 64}}).tokens_max, 64);
  EXPECT_TRUE(read({{"reasoning_format", "none"}}).as_content);
  for (const auto* format : {"auto", "deepseek"}) EXPECT_FALSE(read({{"reasoning_format", format}}).as_content);
  EXPECT_EQ(read({{"thinking_budget", -1}}).tokens_max, std::nullopt);
  EXPECT_EQ(read({{"enable_thinking", false}}).enabled, false);
  read({{"reasoning_effort", "much"}, {"bad", 1}});
  read({{"reasoning_effort", 5}, {"bad", 1}});
  read({{"thinking_budget", -2}, {"bad", 1}});
}

}  // namespace
}  // namespace cairn::api
