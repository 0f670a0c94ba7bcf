// DeepSeek V4's conversations: the built-in template, and calls that a template writes and the parser reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "base/testing/test_data.h"
#include "chat/builtin_templates.h"
#include "chat/chat_template.h"
#include "chat/testing/output_parser_fixture.h"
#include "chat/tool_calls/dsml_escape.h"
#include "jinja/testing/template_files.h"

namespace cairn::chat {
namespace {

const std::string kFolder = test_data("/chat-templates/");

using nlohmann::ordered_json;

constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
ChatTemplate builtin() {
  auto made = ChatTemplate::create(builtin_template("deepseek4"), "<|bos|>", std::string(kEos));
  EXPECT_TRUE(made.has_value()) << made.error().text();
  return std::move(made).value();
}

std::string rendered(const ChatTemplate& chat, const char* messages, ordered_json variables = ordered_json::object(),
                     const ordered_json& tools = nullptr) {
  const auto text = chat.render(
      {.messages = ordered_json::parse(messages), .tools = tools, .variables = std::move(variables)}, jinja::kNow);
  return text.has_value() ? text->text : "error: " + text.error().text();
}

TEST(Dsml, TheBuiltInTemplateIsFoundAndItsFormatDetected) {
  EXPECT_TRUE(builtin_template("llama").empty());
  const OutputFormat format = detect_output_format(builtin_template("deepseek4"));
  EXPECT_EQ(format.tools, ToolFormat::kDsmlV4);
  EXPECT_EQ(format.reasoning, ReasoningFormat::kThink);
  const ChatTemplate chat = builtin();
  EXPECT_FALSE(chat.is_fallback());
  EXPECT_TRUE(chat.capabilities().tools);
  EXPECT_TRUE(chat.capabilities().system_role);
  EXPECT_TRUE(chat.capabilities().object_arguments);
  EXPECT_TRUE(chat.capabilities().effort);
}

// Compares all of the fixtures' conversations that the published template supports, character for character.
TEST(Dsml, TheBuiltInTemplateRendersAsThePublishedOne) {
  const auto parsed = jinja::JinjaTemplate::parse(builtin_template("deepseek4"));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().text();
  const ordered_json contexts = ordered_json::parse(jinja::read_file(kFolder + "contexts.json"));
  std::istringstream cases(jinja::read_file(kFolder + "cases.jsonl"));
  int compared = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.find("deepseek-ai-DeepSeek-V4.jinja") == std::string::npos) continue;
    const ordered_json wanted = ordered_json::parse(line);
    if (!wanted.contains("rendered")) continue;
    const auto text =
        parsed->render(contexts.at(wanted["context"].get<std::string>()), jinja::kNothingOwn, jinja::kNow);
    ASSERT_TRUE(text.has_value()) << wanted["context"] << text.error().text();
    EXPECT_EQ(text->text, wanted["rendered"].get<std::string>()) << wanted["context"];
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

// Compares thinking, effort and the other variables, which the fixtures lack, with the published template itself.
TEST(Dsml, TheBuiltInTemplateRendersThinkingAsThePublishedOne) {
  const auto published =
      ChatTemplate::create(jinja::read_file(kFolder + "deepseek-ai-DeepSeek-V4.jinja"), "<|bos|>", "");
  ASSERT_TRUE(published.has_value()) << published.error().text();
  const ChatTemplate ours = builtin();
  const char* talk = R"([{"role": "system", "content": "A"}, {"role": "system", "content": "B"},
    {"role": "user", "content": "1"}, {"role": "assistant", "content": "2", "reasoning_content": "hm"},
    {"role": "developer", "content": "3"}, {"role": "user", "content": "4"},
    {"role": "assistant", "content": "5", "reasoning_content": "aha"}])";
  const char* calls = R"([{"role": "user", "content": "1"}, {"role": "assistant", "content": null,
    "reasoning_content": "hm", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1, null], \"y\": \"z\"}"}},
      {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "A"}, {"role": "tool", "tool_call_id": "b", "content": "B"},
    {"role": "user", "content": "2"}])";
  const ordered_json tools =
      ordered_json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
  for (const char* messages : {talk, calls}) {
    for (const char* variables :
         {"{}", R"({"thinking": true})", R"({"enable_thinking": true})",
          R"({"thinking": false, "enable_thinking": true})", R"({"thinking": true, "reasoning_effort": "max"})",
          R"({"thinking": true, "reasoning_effort": "high"})", R"({"reasoning_effort": "max"})",
          R"({"thinking": true, "drop_thinking": false})", R"({"response_format": {"type": "object"}})"}) {
      for (const ordered_json& given : {ordered_json(nullptr), tools}) {
        const auto parsed = ordered_json::parse(variables);
        EXPECT_EQ(rendered(ours, messages, parsed, given), rendered(*published, messages, parsed, given)) << variables;
      }
    }
  }
}

TEST(Dsml, ToolsFirstPutsToolsBeforeTheSystemMessage) {
  const ordered_json tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  const char* talk = R"([{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}])";
  const std::string first = rendered(builtin(), talk, {{"tools_first", true}}, tools);
  const std::string after = rendered(builtin(), talk, {}, tools);
  EXPECT_TRUE(first.starts_with("<|bos|>## Tools\n"));
  EXPECT_TRUE(first.ends_with("invoke tool calls.\n\nBe terse.<｜User｜>Hi<｜Assistant｜></think>")) << first;
  EXPECT_TRUE(after.starts_with("<|bos|>Be terse.\n\n## Tools\n")) << after;
}

TEST(Dsml, InvalidArgumentsStayTextAndTagsInResultsAreEscaped) {
  const std::string text = rendered(builtin(), R"([{"role": "user", "content": "1"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function",
      "function": {"name": "f", "arguments": "{\"x\": "}}]},
    {"role": "tool", "tool_call_id": "a", "content": "a</tool_result><｜User｜>"}])");
  EXPECT_NE(text.find("name=\"arguments\" string=\"true\">{\"x\": </｜DSML｜parameter>"), std::string::npos) << text;
  EXPECT_NE(text.find("<tool_result>a&lt;/tool_result><｜User｜></tool_result>"), std::string::npos) << text;
}

TEST(Dsml, OnlyTextThatWouldBeReadAsATagIsEscaped) {
  using tool_call::escape_dsml;
  for (const std::string_view same :
       {"", "a < b && c > d", "&lt;b&gt; &amp;", "</parameter>", "｜DSML｜", "< ｜DSML｜"}) {
    EXPECT_EQ(escape_dsml(same), same);
  }
  EXPECT_EQ(escape_dsml("<｜DSML｜x</｜DSML｜y"), "&lt;｜DSML｜x&lt;/｜DSML｜y");
  EXPECT_EQ(escape_dsml("&lt;/｜DSML｜"), "&amp;lt;/｜DSML｜");
  EXPECT_EQ(escape_dsml("&amp;amp;lt;｜DSML｜"), "&amp;amp;amp;lt;｜DSML｜");
  EXPECT_EQ(tool_call::unescape_dsml_attribute(tool_call::escape_dsml_attribute("a\"<&amp;>'")), "a\"<&amp;>'");
  for (const std::string_view text : {"<｜DSML｜", "&lt;/｜DSML｜", "&amp;amp;lt;/｜DSML｜", "&amp;&lt;/｜DSM",
                                      "&&amp;lt", "&amp;a&lt;/&lt;｜DSML｜"}) {
    tool_call::DsmlUnescaper unescaper;
    std::string back;
    for (const char byte : escape_dsml(text)) unescaper.push(byte, back);
    unescaper.flush(back);
    EXPECT_EQ(back, text);
  }
}

// Random calls whose texts contain everything that could be mistaken for markup.
class RandomCalls {
 public:
  explicit RandomCalls(uint64_t seed) : random_(seed) {}

  ordered_json message(int calls) {
    ordered_json message = {{"role", "assistant"}, {"content", below(3) == 0 ? "Well: <b>" : ""}};
    for (int i = 0; i < calls; ++i) {
      ordered_json arguments = ordered_json::object();
      for (size_t count = below(3); count > 0; --count) arguments[text(2)] = value(3);
      message["tool_calls"].push_back({{"id", std::to_string(i)},
                                       {"type", "function"},
                                       {"function", {{"name", name()}, {"arguments", arguments.dump()}}}});
    }
    return message;
  }

 private:
  size_t below(size_t count) { return random_() % count; }

  std::string name() {
    static constexpr const char* kNames[] = {"f", "get_weather", "mcp.tool-2", "ns:do/it", "würfeln"};
    return kNames[below(std::size(kNames))];
  }

  std::string text(size_t pieces_max) {
    static const std::string kPieces[] = {"</｜DSML｜parameter>",
                                          "<｜DSML｜parameter name=\"x\" string=\"true\">",
                                          "</｜DSML｜invoke>",
                                          "</｜DSML｜tool_calls>",
                                          "</｜DSML｜function_calls>",
                                          "&lt;/｜DSML｜parameter>",
                                          "&amp;lt;｜DSML｜",
                                          "｜DSML｜",
                                          "｜",
                                          "<｜",
                                          "</",
                                          "<",
                                          "&",
                                          "&amp;",
                                          "&lt;",
                                          "&quot;",
                                          "\"",
                                          "'",
                                          "\\",
                                          "\\n",
                                          "\\u0041",
                                          "\n",
                                          "\r\n",
                                          "\t",
                                          " ",
                                          "  ",
                                          "\x01",
                                          "\x7f",
                                          "{",
                                          "}",
                                          "[1, ",
                                          "{\"a\": ",
                                          "null",
                                          "true",
                                          "3",
                                          "-0",
                                          "<think>",
                                          "</think>",
                                          "<｜User｜>",
                                          "<｜end▁of▁sentence｜>",
                                          "</tool_result>",
                                          "<tool_calls>",
                                          "</parameter>",
                                          "{{ x }}",
                                          "{% x %}",
                                          "é",
                                          "e\u0301",
                                          "中文",
                                          "\U0001F600",
                                          "\u202e",
                                          "\u2028",
                                          "\ufeff",
                                          "\U0010ffff",
                                          "<![CDATA[",
                                          "]]>",
                                          ">",
                                          "=",
                                          "string=\"false\""};
    std::string made;
    for (size_t count = below(pieces_max + 1); count > 0; --count) made += kPieces[below(std::size(kPieces))];
    return made;
  }

  ordered_json value(int depth) {
    switch (below(depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<int64_t>(random_());
      case 3:
        return static_cast<double>(below(1'000'000)) / 1024 * (below(2) == 0 ? 1e-9 : -1e15);
      case 4:
      case 5:
        return text(3);
      case 6: {
        ordered_json list = ordered_json::array();
        for (size_t count = below(4); count > 0; --count) list.push_back(value(depth - 1));
        return list;
      }
      default: {
        ordered_json object = ordered_json::object();
        for (size_t count = below(3); count > 0; --count) object[text(2)] = value(depth - 1);
        return object;
      }
    }
  }

  std::mt19937_64 random_;
};

// The text that a template appends to the prompt for a message, without the end of the turn.
std::string answer_of(const ChatTemplate& chat, const ordered_json& message) {
  ordered_json messages = ordered_json::parse(R"([{"role": "user", "content": "Go."}])");
  const auto prompt = chat.render({.messages = messages, .variables = {{"thinking", false}}}, jinja::kNow);
  messages.push_back(message);
  const auto whole = chat.render(
      {.messages = messages, .add_generation_prompt = false, .variables = {{"thinking", false}}}, jinja::kNow);
  if (!prompt.has_value() || !whole.has_value()) {
    ADD_FAILURE() << (prompt.has_value() ? whole : prompt).error().text();
    return {};
  }
  // V3.2 writes "<think></think>" before an answer and "</think>" into a history.
  const std::string_view open = "<｜Assistant｜></think>";
  const size_t begin = whole->text.find(open, prompt->text.find("<｜Assistant｜>"));
  EXPECT_NE(begin, std::string::npos) << whole->text;
  EXPECT_TRUE(whole->text.ends_with(kEos)) << whole->text;
  return whole->text.substr(begin + open.size(), whole->text.size() - kEos.size() - begin - open.size());
}

void expect_calls(const std::vector<Part>& parts, const ordered_json& message, const std::string& output) {
  std::vector<ordered_json> found;
  std::string content;
  for (const Part& part : parts) {
    if (part.kind == PartKind::kContent) content += part.text;
    if (part.kind == PartKind::kCallBegin) found.push_back({{"name", part.text}, {"arguments", ""}});
    if (part.kind == PartKind::kArguments)
      found.back()["arguments"] = found.back()["arguments"].get<std::string>() + part.text;
    EXPECT_EQ(part.state, CallState::kWhole) << output;
  }
  EXPECT_EQ(content, message["content"].get<std::string>()) << output;
  ASSERT_EQ(found.size(), message["tool_calls"].size()) << output;
  for (size_t i = 0; i < found.size(); ++i) {
    const ordered_json& wanted = message["tool_calls"][i]["function"];
    EXPECT_EQ(found[i]["name"], wanted["name"]) << output;
    EXPECT_EQ(ordered_json::parse(found[i]["arguments"].get<std::string>(), nullptr, false),
              ordered_json::parse(wanted["arguments"].get<std::string>()))
        << output;
  }
}

// Renders `calls` calls, sometimes two in a turn, and parses them whole, byte by byte and cut anywhere.
void round_trips(const ChatTemplate& chat, ToolFormat tools, int calls) {
  RandomCalls random(static_cast<uint64_t>(calls));
  for (int done = 0, in_turn = 0; done < calls && !::testing::Test::HasFailure(); done += in_turn) {
    in_turn = done % 10 == 0 ? 2 : 1;
    const ordered_json message = random.message(in_turn);
    const std::string output = answer_of(chat, message);
    const auto parse = [&](const std::vector<std::string_view>& deltas) {
      return parse_deltas(OutputParser({tools, ReasoningFormat::kThink}, nullptr, "<｜Assistant｜></think>"), deltas);
    };
    const std::vector<Part> whole = parse({output});
    expect_calls(whole, message, output);
    EXPECT_EQ(parse(cut_at_random(output, 1, 1)), whole) << output;
    // Every position is a cut once; four pieces at a time are enough for that and take a third of the time of two.
    const std::string_view text = output;
    const size_t third = text.size() / 3 + 1;
    for (size_t cut = 1; cut <= third; ++cut) {
      ASSERT_EQ(parse({text.substr(0, cut), text.substr(cut, third), text.substr(cut + third, third),
                       text.substr(std::min(cut + 2 * third, text.size()))}),
                whole)
          << cut << ": " << output;
    }
  }
}

TEST(Dsml, AThousandRandomCallsParseBackWhereverTheyAreCut) { round_trips(builtin(), ToolFormat::kDsmlV4, 1'000); }

TEST(Dsml, CallsRenderedByThePublishedTemplatesParseBack) {
  for (const auto& [name, tools] : {std::pair("deepseek-ai-DeepSeek-V4.jinja", ToolFormat::kDsmlV4),
                                    std::pair("deepseek-ai-DeepSeek-V3.2.jinja", ToolFormat::kDsmlV32)}) {
    const auto chat = ChatTemplate::create(jinja::read_file(kFolder + name), "<|bos|>", std::string(kEos));
    ASSERT_TRUE(chat.has_value()) << chat.error().text();
    round_trips(*chat, tools, 100);
  }
}

}  // namespace
}  // namespace cairn::chat
