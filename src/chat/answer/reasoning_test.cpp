#include "chat/answer/reasoning.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/builtin_templates.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

ChatTemplate template_of(std::string_view source) {
  auto made = ChatTemplate::create(source, "<s>", "</s>");
  EXPECT_TRUE(made.has_value()) << made.error().text();
  return std::move(made).value();
}

// What the template is told.
ordered_json told(const ReasoningOptions& options, const ChatTemplate& chat, int32_t context_tokens,
                  ordered_json variables = ordered_json::object()) {
  resolve_reasoning(options, chat.capabilities(), {}, context_tokens, variables);
  return variables;
}

TEST(Reasoning, DeepseeksMaximumNeedsItsContext) {
  const ChatTemplate chat = template_of(builtin_template("deepseek4"));
  const ReasoningOptions most{.enabled = true, .effort = "max"};
  const int32_t enough = 393'216;
  EXPECT_EQ(told(most, chat, enough)["reasoning_effort"], "max");
  EXPECT_EQ(told(most, chat, enough - 1)["reasoning_effort"], "high");
  EXPECT_EQ(told(most, chat, 1 << 20)["thinking"], true);
  // Also where the client writes the template's variable itself.
  EXPECT_EQ(told({}, chat, 32'768, {{"reasoning_effort", "max"}})["reasoning_effort"], "high");
  EXPECT_EQ(told({}, chat, enough, {{"reasoning_effort", "max"}})["reasoning_effort"], "max");
  EXPECT_EQ(told({.enabled = true, .effort = "xhigh"}, chat, enough)["reasoning_effort"], "high");
  EXPECT_EQ(told({.enabled = true, .effort = "low"}, chat, enough)["reasoning_effort"], "low");
  EXPECT_FALSE(told({.enabled = true}, chat, enough).contains("reasoning_effort"));

  // And the prompt shows it.
  const auto prompt = [&](int32_t context_tokens) {
    const ChatInput input{.messages = ordered_json::parse(R"([{"role": "user", "content": "hi"}])"),
                          .variables = told(most, chat, context_tokens)};
    return chat.render(input, 0).value().text;
  };
  EXPECT_NE(prompt(enough).find("Absolute maximum"), std::string::npos);
  EXPECT_EQ(prompt(enough - 1).find("Absolute maximum"), std::string::npos);
  EXPECT_TRUE(prompt(enough - 1).ends_with("<think>"));
}

TEST(Reasoning, OtherTemplatesGetTheirHighestOrABudget) {
  const ChatTemplate knowing = template_of("{{ reasoning_effort }}{{ messages[0].content }}");
  EXPECT_EQ(told({.enabled = true, .effort = "max"}, knowing, 4'096)["reasoning_effort"], "xhigh");
  EXPECT_EQ(told({.enabled = true, .effort = "high"}, knowing, 4'096)["reasoning_effort"], "high");
  EXPECT_EQ(told({}, knowing, 4'096, {{"reasoning_effort", "max"}})["reasoning_effort"], "max");
  const ChatTemplate plain = template_of("{{ messages[0].content }}");
  EXPECT_FALSE(told({.enabled = true, .effort = "max"}, plain, 4'096).contains("reasoning_effort"));
  ordered_json variables = ordered_json::object();
  const auto budget = [&](const ReasoningOptions& options, const ChatTemplate& chat) {
    return resolve_reasoning(options, chat.capabilities(), {}, 4'096, variables);
  };
  EXPECT_EQ(budget({.enabled = true, .effort = "low"}, plain), 2'048);
  EXPECT_EQ(budget({.enabled = true, .effort = "low"}, knowing), -1);
  EXPECT_EQ(budget({.enabled = true, .effort = "max"}, plain), -1);
  EXPECT_EQ(budget({.enabled = false}, plain), 0);
  EXPECT_EQ(budget({.enabled = true, .effort = "low", .tokens_max = 7}, plain), 7);
}

TEST(Reasoning, IsOnUnlessTheRequestOrTheServerSaysOtherwise) {
  const ChatTemplate tagged = template_of("{{ messages[0].content }}</think>");
  const ChatTemplate plain = template_of("{{ messages[0].content }}");
  const auto all = [](const ReasoningOptions& options, const ChatTemplate& chat, const TemplateDefaults& defaults,
                      ordered_json variables = ordered_json::object()) {
    resolve_reasoning(options, chat.capabilities(), defaults, 4'096, variables);
    return variables;
  };
  EXPECT_EQ(all({}, tagged, {}), (ordered_json{{"enable_thinking", true}, {"thinking", true}}));
  // Granite's `thinking` asks for another form of answers, which nobody has asked for.
  EXPECT_EQ(all({}, plain, {}), (ordered_json{{"enable_thinking", true}}));
  EXPECT_EQ(all({.enabled = false}, tagged, {.reasoning = true})["thinking"], false);
  EXPECT_EQ(all({}, tagged, {.reasoning = false}), (ordered_json{{"enable_thinking", false}, {"thinking", false}}));
  EXPECT_EQ(all({}, tagged, {}, {{"enable_thinking", false}})["thinking"], false);
  EXPECT_EQ(all({}, tagged, {.variables = {{"thinking", false}, {"x", 1}}}),
            (ordered_json{{"thinking", false}, {"x", 1}, {"enable_thinking", false}}));
  EXPECT_EQ(all({}, tagged, {.variables = {{"x", 1}}}, {{"x", 2}})["x"], 2);
  ordered_json variables = ordered_json::object();
  EXPECT_EQ(resolve_reasoning({}, tagged.capabilities(), {.reasoning = false}, 4'096, variables), 0);
}

}  // namespace
}  // namespace cairn::chat
