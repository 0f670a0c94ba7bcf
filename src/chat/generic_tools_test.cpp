#include "chat/generic_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "chat/output/output_parser.h"

namespace cairn {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

const ordered_json kTools = ordered_json::parse(
    R"([{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}])");

ordered_json call(const std::string& id, const ordered_json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", arguments}}}};
}

ChatInput conversation() {
  ChatInput input;
  input.tools = kTools;
  input.messages = {
      {{"role", "user"}, {"content", "2 and 2?"}},
      {{"role", "assistant"}, {"content", "I add."}, {"tool_calls", {call("1", "{\"a\":  2}"), call("2", "{no json")}}},
      {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "4"}},
      {{"role", "tool"}, {"tool_call_id", "2"}, {"content", {{{"type", "text"}, {"text", "bad"}}}}}};
  return input;
}

TEST(GenericTools, ToolsCallsAndResultsBecomeText) {
  const ChatInput made = with_generic_tools(conversation());
  EXPECT_TRUE(made.tools.is_null());
  ASSERT_EQ(made.messages.size(), 4u);
  EXPECT_EQ(made.messages[0]["role"], "system");
  EXPECT_THAT(made.messages[0]["content"].get<std::string>(), HasSubstr(R"({"name":"add","description":"Adds.")"));
  EXPECT_EQ(made.messages[2]["content"],
            "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":  2}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {no json}\n</tool_call>");
  EXPECT_FALSE(made.messages[2].contains("tool_calls"));
  EXPECT_EQ(made.messages[3]["role"], "user");
  EXPECT_EQ(made.messages[3]["content"],
            "<tool_response>\n4\n</tool_response>\n<tool_response>\nbad\n</tool_response>");
}

TEST(GenericTools, TheDescriptionOfToolsFollowsTheSystemMessagesText) {
  ChatInput input = conversation();
  input.messages.insert(input.messages.begin(), ordered_json{{"role", "system"}, {"content", "Be brief."}});
  const ChatInput made = with_generic_tools(input);
  EXPECT_EQ(made.messages.size(), 4u);
  EXPECT_THAT(made.messages[0]["content"].get<std::string>(), testing::StartsWith("Be brief.\nYou can call"));
}

TEST(GenericTools, AreUsedOnlyForTemplatesWithoutToolSupport) {
  const auto bare = ChatTemplate::create("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}", "", "");
  ASSERT_TRUE(bare.has_value());
  EXPECT_TRUE(bare->capabilities().generic_tools);
  const auto text = bare->render(conversation(), 0);
  ASSERT_TRUE(text.has_value()) << text.error().text();
  EXPECT_THAT(text->text, HasSubstr("[user] <tool_response>\n4"));
  EXPECT_THAT(text->text, Not(HasSubstr("[tool]")));
  // The fallback template has generic tools too, and the parser reads what it writes.
  const auto fallback = ChatTemplate::create("", "", "");
  ASSERT_TRUE(fallback.has_value());
  EXPECT_TRUE(fallback->capabilities().generic_tools);
  ChatInput said = conversation();
  said.messages[1]["tool_calls"].erase(1);  // the other call's arguments are not JSON
  OutputParser parser(detect_output_format(""), kTools, "");
  std::vector<Part> parts;
  parser.feed(with_generic_tools(said).messages[2]["content"].get<std::string>(), parts);
  parser.finish(parts);
  std::string arguments;
  for (const Part& part : parts)
    if (part.kind == PartKind::kArguments) arguments += part.text;
  EXPECT_EQ(ordered_json::parse(arguments), ordered_json::parse(R"({"a": 2})"));
  EXPECT_EQ(std::ranges::count(parts, PartKind::kCallEnd, &Part::kind), 1);

  const auto knows = ChatTemplate::create(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}",
      "", "");
  ASSERT_TRUE(knows.has_value());
  EXPECT_FALSE(knows->capabilities().generic_tools);
  // Without tools nothing changes.
  ChatInput plain;
  plain.messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(bare->render(plain, 0).value().text, "[user] x\n");
}

}  // namespace
}  // namespace cairn
