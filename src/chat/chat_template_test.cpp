#include "chat/chat_template.h"
#include "base/testing/test_data.h"
#include "chat/builtin_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

ChatTemplate create(std::string_view source) {
  auto made = ChatTemplate::create(source, "<s>", "</s>");
  EXPECT_TRUE(made.has_value()) << made.error().text();
  return std::move(made).value();
}

ChatTemplate published(const std::string& name) {
  std::ifstream file(test_data() + "/chat-templates/" + name + ".jinja", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return create(text.str());
}

ChatInput input_of(const char* messages) {
  ChatInput input;
  input.messages = ordered_json::parse(messages);
  return input;
}

std::string rendered(const ChatTemplate& chat_template, const ChatInput& input) {
  const auto text = chat_template.render(input, 1768480496);
  return text.has_value() ? text->text : "error: " + text.error().text();
}

TEST(ChatTemplate, AnEmptySourceMeansChatMl) {
  const ChatTemplate chatml = create("");
  EXPECT_TRUE(chatml.is_fallback());
  EXPECT_FALSE(create("x").is_fallback());
  const ChatInput input = input_of(R"([{"role":"system","content":"Be terse."},{"role":"user","content":"Hi "},
      {"role":"assistant","content":null},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  EXPECT_EQ(
      rendered(chatml, input),
      "<|im_start|>system\nBe terse.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
      "<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
  ChatInput closed = input_of(R"([{"role":"user","content":"Hi"}])");
  closed.add_generation_prompt = false;
  EXPECT_EQ(rendered(chatml, closed), "<|im_start|>user\nHi<|im_end|>\n");
}

TEST(FallbackTemplate, TheArchitectureDecidesIfItsTokensAreThere) {
  const ChatInput input = input_of(R"([{"role":"system","content":"Be terse. "},{"role":"user","content":"Hi"},
      {"role":"assistant","content":"Yes?"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  const auto all = [](std::string_view) { return true; };
  const FallbackTemplate llama = fallback_template("llama", all);
  EXPECT_EQ(llama.family, "Llama 3");
  EXPECT_EQ(rendered(create(llama.source), input),
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe terse.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\na\nb<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(fallback_template("mistral3", all).source, llama.source);
  const FallbackTemplate gemma = fallback_template("gemma2", all);
  EXPECT_EQ(gemma.family, "Gemma");
  EXPECT_EQ(rendered(create(gemma.source), input),
            "<s><start_of_turn>user\nBe terse.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n"
            "<start_of_turn>user\na\nb<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_TRUE(fallback_template("qwen3", all).source.empty());
  const auto no_eot = [](std::string_view token) { return token != "<|eot_id|>"; };
  EXPECT_TRUE(fallback_template("llama", no_eot).source.empty());
  EXPECT_EQ(fallback_template("gemma", no_eot).source, gemma.source);
}

TEST(ChatTemplate, HasNoMarkAndNoNulAtItsEnds) {
  const ChatInput input = input_of(R"([{"role":"user","content":"Hi"}])");
  for (const std::string_view source : {std::string_view("\xef\xbb\xbf{{ messages[0].content }}"),
                                        std::string_view("{{ messages[0].content }}\0\0", 27),
                                        std::string_view("\0\xef\xbb\xbf{{ messages[0].content }}\0", 30)})
    EXPECT_EQ(rendered(create(source), input), "Hi");
  EXPECT_TRUE(create("\xef\xbb\xbf").is_fallback());
}

TEST(ChatTemplate, SaysWhetherItShowsAMessage) {
  EXPECT_FALSE(create("{% for m in message %}{{ m.content }}{% endfor %}").shows_messages());
  EXPECT_FALSE(create("no variables").shows_messages());
  EXPECT_TRUE(create("{{ messages[0].content }}").shows_messages());
  EXPECT_TRUE(create("{{ messages[0].content[0].text }}").shows_messages());
  EXPECT_TRUE(create("").shows_messages());
  EXPECT_TRUE(create("{{ raise_exception('no') }}").shows_messages());
}

TEST(ChatTemplate, ProvidesTheVariablesThatModelLibrariesProvide) {
  const ChatTemplate all = create(
      "{{ bos_token }}|{{ eos_token }}|{{ tools is defined }}|{{ documents is none }}|{{ add_generation_prompt }}|"
      "{{ enable_thinking is defined }}|{{ messages | length }}");
  ChatInput input = input_of(R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(rendered(all, input), "<s>|</s>|False|True|True|False|1");
  input.variables = {{"enable_thinking", false}, {"bos_token", "B"}, {"documents", ordered_json::array()}};
  EXPECT_EQ(rendered(all, input), "B|</s>|False|False|True|True|1");
}

TEST(ChatTemplate, KnowsTheDateUnderTheNamesThatTemplatesReadItBy) {
  const ChatTemplate dates = create("{{ date_string }}|{{ datetime }}|{{ strftime_now('%d %b %Y') }}");
  const std::string text = rendered(dates, input_of(R"([{"role":"user","content":"x"}])"));
  EXPECT_THAT(text, testing::MatchesRegex("[0-9]+ [A-Z][a-z]+ 20[0-9]+\\|[A-Z][a-z]+ [0-9]+ 20[0-9]+\\|.*"));
  // At midnight they may differ.
  EXPECT_EQ(text.substr(text.find('|') + 1).size(), 2 * text.find('|') + 1);
}

TEST(ChatTemplate, DetectsTheCapabilitiesOfPublishedTemplates) {
  struct Case {
    const char* name;
    bool list, system, tools, objects;
  };
  const Case cases[] = {
      {"Qwen-Qwen2.5-7B-Instruct", false, true, true, true},
      {"Qwen3.5-4B", true, true, true, true},
      {"google-gemma-2-2b-it", false, false, false, false},
      {"google-gemma-4-31B-it", false, true, true, true},
      {"microsoft-Phi-3.5-mini-instruct", false, true, false, false},
      {"Kimi-K2-Instruct", true, true, true, true},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", false, true, false, false},
      {"openai-gpt-oss-120b", false, true, true, true},
      {"GLM-4.6", false, true, true, true},
  };
  for (const Case& wanted : cases) {
    const ChatCapabilities can = published(wanted.name).capabilities();
    EXPECT_TRUE(can.string_content) << wanted.name;
    EXPECT_EQ(can.list_content, wanted.list) << wanted.name;
    EXPECT_EQ(can.system_role, wanted.system) << wanted.name;
    EXPECT_EQ(can.tools, wanted.tools) << wanted.name;
    EXPECT_EQ(can.object_arguments, wanted.objects) << wanted.name;
  }
}

TEST(ChatTemplate, JoinsTextPartsForTemplatesThatTakeStrings) {
  const ChatTemplate phi = published("microsoft-Phi-3.5-mini-instruct");
  const std::string parts =
      rendered(phi, input_of(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])"));
  EXPECT_EQ(parts, rendered(phi, input_of(R"([{"role":"user","content":"a\nb"}])")));
  EXPECT_THAT(parts, HasSubstr("a\nb"));
  const auto image = phi.render(
      input_of(
          R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}])"),
      0);
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error().code, Code::kInvalidArgument);
  EXPECT_EQ(image.error().at, "messages[0].content[1]");
}

TEST(ChatTemplate, MakesPartsForTemplatesThatTakeOnlyLists) {
  const ChatTemplate lists = create(
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}<{{ p.text }}>{% endif %}{% endfor %}"
      "{% endfor %}");
  EXPECT_FALSE(lists.capabilities().string_content);
  EXPECT_EQ(rendered(lists, input_of(R"([{"role":"user","content":"hi"}])")), "<hi>");
}

TEST(ChatTemplate, PutsTheSystemMessageIntoTheUsersIfThereIsNoSystemRole) {
  const ChatTemplate gemma = published("google-gemma-2-2b-it");
  const std::string text =
      rendered(gemma, input_of(R"([{"role":"system","content":"Be terse."},{"role":"user","content":"Hi"}])"));
  EXPECT_EQ(text, rendered(gemma, input_of(R"([{"role":"user","content":"Be terse.\n\nHi"}])")));
  EXPECT_THAT(text, HasSubstr("Be terse.\n\nHi"));
  // Without a user's message it is one.
  EXPECT_EQ(rendered(gemma, input_of(R"([{"role":"system","content":"x"}])")),
            rendered(gemma, input_of(R"([{"role":"user","content":"x"}])")));
}

TEST(ChatTemplate, ConvertsArgumentsToTheFormThatTheTemplateTakes) {
  const char* messages = R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[
      {"id":"call00001","type":"function","function":{"name":"f","arguments":"{\"city\":\"Zürich\",\"n\":1.0}"}}]}])";
  EXPECT_THAT(rendered(published("Qwen-Qwen2.5-7B-Instruct"), input_of(messages)),
              HasSubstr(R"({"name": "f", "arguments": {"city": "Zürich", "n": 1.0}})"));
  EXPECT_THAT(rendered(published("meetkai-functionary-medium-v3.2"), input_of(messages)),
              HasSubstr(R"({"city":"Zürich","n":1.0})"));
  // Arguments that are not a JSON object stay a string.
  const char* broken = R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[
      {"id":"call00001","type":"function","function":{"name":"f","arguments":"{\"city\": "}}]}])";
  EXPECT_THAT(rendered(published("Qwen-Qwen2.5-7B-Instruct"), input_of(broken)), HasSubstr(R"("{\"city\": ")"));
}

TEST(ChatTemplate, ShowsTools) {
  ChatInput input = input_of(R"([{"role":"user","content":"x"}])");
  const ChatTemplate qwen = published("Qwen-Qwen2.5-7B-Instruct");
  EXPECT_THAT(rendered(qwen, input), Not(HasSubstr("get_weather")));
  input.tools = ordered_json::parse(R"([{"type":"function","function":{"name":"get_weather","parameters":{}}}])");
  EXPECT_THAT(rendered(qwen, input), HasSubstr("get_weather"));
}

TEST(ChatTemplate, ErrorsGiveTheTemplatesMessageAndLine) {
  EXPECT_FALSE(ChatTemplate::create("{% if %}", "", "").has_value());
  const ChatTemplate strict = create("{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}{% endfor %}");
  const auto text = strict.render(input_of(R"([{"role":"user","content":"x"}])"), 0);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(
      text.error().message,
      "the model's chat template cannot render this conversation: line 2: no user. It was given 1 messages (user) "
      "and 0 tools. Start the server with --chat-template FILE to give the model another template");
  EXPECT_EQ(text.error().at, "messages");
  // Such a template shows no probe; then messages are not converted.
  EXPECT_TRUE(strict.capabilities().string_content);
  EXPECT_TRUE(strict.capabilities().system_role);
  ChatInput no_list;
  no_list.messages = "x";
  EXPECT_FALSE(strict.render(no_list, 0).has_value());
}

}  // namespace
}  // namespace cairn::chat
