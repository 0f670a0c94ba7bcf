#include "chat/generic_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "chat/chat_template.h"
#include "chat/output/output_parser.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

const ordered_json kAddTool = ordered_json::parse(
    R"([{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}])");

ordered_json call(const std::string& id, const ordered_json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", arguments}}}};
}

ChatInput conversation() {
  ChatInput input;
  input.tools = kAddTool;
  input.messages = {
      {{"role", "user"}, {"content", "2 and 2?"}},
      {{"role", "assistant"}, {"content", "I add."}, {"tool_calls", {call("1", "{\"a\":  2}"), call("2", "{no json")}}},
      {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "4"}},
      {{"role", "tool"}, {"tool_call_id", "2"}, {"content", {{{"type", "text"}, {"text", "bad"}}}}}};
  return input;
}

const char* const kBare = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}";

std::string rendered(const char* source, const ChatInput& input) {
  const auto made = ChatTemplate::create(source, "", "");
  EXPECT_TRUE(made.has_value()) << made.error().text();
  const auto text = made->render(input, 0);
  return text ? text->text : "error: " + text.error().text();
}

TEST(GenericTools, ToolsCallsAndResultsBecomeTextForTemplatesWithoutAPlaceForThem) {
  const std::string text = rendered(kBare, conversation());
  EXPECT_THAT(text, HasSubstr(R"({"name":"add","description":"Adds.")"));
  EXPECT_THAT(
      text, HasSubstr("[assistant] I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":  2}}\n</tool_call>\n"
                      "<tool_call>\n{\"name\": \"add\", \"arguments\": {no json}\n</tool_call>\n[user]"));
  EXPECT_THAT(text, HasSubstr("[user] <tool_response>\n4\n</tool_response>\n<tool_response>\nbad\n</tool_response>\n"));
  EXPECT_THAT(text, Not(HasSubstr("[tool]")));
  // Without tools nothing changes.
  ChatInput plain;
  plain.messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_EQ(rendered(kBare, plain), "[user] x\n");
}

TEST(GenericTools, TheDescriptionOfToolsFollowsTheSystemMessagesText) {
  ChatInput input = conversation();
  input.messages.insert(input.messages.begin(), ordered_json{{"role", "system"}, {"content", "Be brief."}});
  EXPECT_THAT(rendered(kBare, input), testing::StartsWith("[system] Be brief.\nYou can call"));
}

TEST(GenericTools, TheParserReadsCallsInTheFormThatTheModelIsShown) {
  for (const tool_call::ToolStyle* style :
       {static_cast<const tool_call::ToolStyle*>(nullptr), tool_call::find_style(ToolFormat::kDeepSeekV31)}) {
    OutputFormat format = detect_output_format("");
    if (style != nullptr) format.tools = style->format;
    OutputParser parser(format, kAddTool, "");
    std::vector<Part> parts;
    parser.feed(call_as_text(call("1", "{\"a\": 2}"), style), parts);
    parser.finish(parts);
    std::string arguments;
    for (const Part& part : parts)
      if (part.kind == PartKind::kArguments) arguments += part.text;
    EXPECT_EQ(ordered_json::parse(arguments), ordered_json::parse(R"({"a": 2})"));
    EXPECT_EQ(std::ranges::count(parts, PartKind::kCallEnd, &Part::kind), 1);
  }
}

TEST(GenericTools, AreNotUsedWhereTheTemplateShowsTools) {
  const char* knows =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}";
  ChatInput input;
  input.tools = kAddTool;
  input.messages = {{{"role", "user"}, {"content", "x"}}};
  EXPECT_THAT(rendered(knows, input), testing::AllOf(HasSubstr("\"add\""), Not(HasSubstr("You can call"))));
}

}  // namespace
}  // namespace cairn::chat
