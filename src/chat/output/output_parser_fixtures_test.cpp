// The text that a template renders for an assistant's turn with calls is what its model was trained to write, so
// parsing it must give the calls, the thinking and the text back.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/testing/test_data.h"
#include "chat/chat_template.h"
#include "chat/testing/output_parser_fixture.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/characters.h"
#include "grammar/grammar_source.h"
#include "grammar/matcher.h"
#include "jinja/testing/template_files.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kThought = "Let me think.\nFirst, <b> & \"quotes\".";
constexpr std::string_view kContent = "I will check.";

const ordered_json kFixtureTools = ordered_json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {"type": "object",
    "properties": {"city": {"type": "string", "description": "City."}, "days": {"type": "integer", "description": "n"},
      "note": {"type": "string", "description": "n"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "calc", "description": "Calculate.", "parameters": {"type": "object",
    "properties": {"expr": {"type": "string", "description": "e"},
      "opts": {"type": "object", "description": "o", "properties": {"precise": {"type": "boolean"}},
               "additionalProperties": {"type": "string"}}},
    "required": ["expr"]}}}])");

const nlohmann::json kWeather = {{"city", "Zürich"}, {"days", 3}, {"note", "one\ntwo \"q\" \\ <i>"}};
const nlohmann::json kCalc = {{"expr", "1 < 2 && \"x\" > 'y'"},
                              {"opts", {{"precise", true}, {"tags", {"a", "b"}}, {"none", nullptr}}}};

ordered_json call(std::string_view id, std::string_view name, const nlohmann::json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

struct Turn {
  std::string_view content;
  bool thinks = false;
  bool two = false;  // whether there are two calls
};

ordered_json message_of(const Turn& turn) {
  ordered_json message = {{"role", "assistant"}, {"content", turn.content}};
  if (turn.thinks) message["reasoning_content"] = kThought;
  message["tool_calls"] = ordered_json::array({call("call00001", "get_weather", kWeather)});
  if (turn.two) message["tool_calls"].push_back(call("call00002", "calc", kCalc));
  return message;
}

// Texts that end a model's turn, or begin the next role's.
constexpr std::string_view kTurnEnds[] = {"<|im_end|>",
                                          "<|eot_id|>",
                                          "<|eom_id|>",
                                          "<|eos|>",
                                          "<|end_of_text|>",
                                          "<｜end▁of▁sentence｜>",
                                          "<|END_OF_TURN_TOKEN|>",
                                          "<|observation|>",
                                          "[e~[",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<|call|>",
                                          "<|role_end|>",
                                          "</assistant>",
                                          "<seed:eos>",
                                          "<end_of_sentence>",
                                          "<SPECIAL_12>",
                                          "<sep>human",
                                          "<|eot|>",
                                          "<|calls|>",
                                          "\n<|end|>\n",
                                          "<|message_sep|>\n\nfunction result",
                                          "<｜hy_eos",
                                          "<|end_of_msg|>",
                                          "<|tools_suffix|>",
                                          "<|START_OF_TURN_TOKEN|><|SYSTEM"};

struct Rendered {
  std::string prompt;
  std::string output;
};

// The prompt that the model would have had, and the turn as the template renders it in the history.
std::optional<Rendered> render_turn(const ChatTemplate& chat, const Turn& turn) {
  ChatInput input;
  input.tools = kFixtureTools;
  input.messages = ordered_json::array({{{"role", "user"}, {"content", "Weather in Bern?"}}});
  input.variables = {{"enable_thinking", turn.thinks}, {"thinking", turn.thinks}};
  const auto before = chat.render(input, jinja::kNow);
  input.messages.push_back(message_of(turn));
  for (const auto& made : input.messages[1]["tool_calls"])
    input.messages.push_back({{"role", "tool"},
                              {"tool_call_id", made["id"]},
                              {"name", made["function"]["name"]},
                              {"content", "{\"temp\": 3}"}});
  const auto after = chat.render(input, jinja::kNow);
  if (!before || !after) return std::nullopt;
  const std::string& prompt = before->text;
  const std::string& whole = after->text;
  size_t same = static_cast<size_t>(std::ranges::mismatch(prompt, whole).in1 - prompt.begin());
  // If the history differs from the prompt here, it begins with another marker.
  if (same < prompt.size()) {
    const size_t marker = prompt.find_last_of("<[", same);
    if (marker != std::string::npos && prompt.find_first_of(">]", marker) >= same) same = marker;
  }
  Rendered rendered{prompt.substr(0, same), whole.substr(same)};
  // Command R+'s template asks for actions in a system message after the last turn only.
  constexpr std::string_view kChatbot = "<|CHATBOT_TOKEN|>";
  if (rendered.output.starts_with(kChatbot)) rendered.output.erase(0, kChatbot.size());
  size_t end = rendered.output.size();
  for (const auto text : kTurnEnds) end = std::min(end, rendered.output.find(text));
  rendered.output.resize(end);
  return rendered;
}

struct Heard {
  std::string content;
  std::string reasoning;
  std::vector<std::pair<std::string, nlohmann::json>> calls;
  bool whole = true;
};

Heard hear(const std::vector<Part>& parts) {
  Heard heard;
  std::string arguments;
  for (const Part& part : parts) {
    switch (part.kind) {
      case PartKind::kContent:
        heard.content += part.text;
        break;
      case PartKind::kReasoning:
        heard.reasoning += part.text;
        break;
      case PartKind::kCallBegin:
        heard.calls.emplace_back(part.text, nullptr);
        arguments.clear();
        break;
      case PartKind::kArguments:
        arguments += part.text;
        break;
      case PartKind::kCallEnd:
        heard.calls.back().second = nlohmann::json::parse(arguments, nullptr, false);
        heard.whole &= part.state == CallState::kWhole;
    }
  }
  return heard;
}

// Templates that show no call of an assistant's turn, each for its own reason.
bool shows_no_calls(const std::string& name) {
  static const std::vector<std::string_view> kNames = {"HuggingFaceTB-SmolLM3-3B",
                                                       "LFM2-8B-A1B",
                                                       "LFM2.5-Instruct",
                                                       "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
                                                       "llama-cpp-deepseek-r1",
                                                       "llama-cpp-rwkv-world",
                                                       "google-gemma-2-2b-it",
                                                       "ibm-granite-granite-3.3-2B-Instruct",
                                                       "microsoft-Phi-3.5-mini-instruct"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// Formats for which there is no parser yet.
bool is_unknown_format(const std::string& name) {
  static const std::vector<std::string_view> kNames = {"MiniMax-M3", "muse-glimmer"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// The grammar of blocks of calls in the format: one tool's arguments follow its schema, the other's need not.
std::shared_ptr<const grammar::Grammar> grammar_of(const tool_call::ToolStyle& style) {
  const auto spell = [](std::string_view text, bool) { return std::string(text); };
  grammar::GrammarSource source{.kind = grammar::GrammarSource::Kind::kCalls,
                                .forms = tool_call::call_forms(style, spell)};
  const tool_call::ToolSchemas schemas(kFixtureTools);
  for (const ordered_json& tool : kFixtureTools) {
    const ordered_json& function = tool["function"];
    grammar::CalledTool called{.name = function["name"], .schema = function["parameters"]};
    called.strict = called.name == "get_weather";
    for (const auto& [key, schema] : called.schema["properties"].items())
      called.kinds[key] = tool_call::parameter_kind(schemas.kind(called.name, key));
    source.tools.push_back(std::move(called));
  }
  const auto made = grammar::compile(source);
  EXPECT_TRUE(made.has_value());
  return made ? *made : nullptr;
}

// What a model was trained to write must not be masked.
void expect_held(const tool_call::ToolStyle& style, std::string_view prompt, std::string text) {
  if (style.format == ToolFormat::kLfm) return;  // see below
  std::vector<std::string> starts;
  for (const tool_call::CallStart& start : tool_call::call_starts(style)) starts.emplace_back(start.text);
  if (style.bare != nullptr) starts.emplace_back(style.bare->text);
  for (const std::string_view open : {style.prompt_open, std::string_view("<|start|>assistant")})
    if (!open.empty() && prompt.ends_with(open)) text.insert(0, open);
  const auto grammar = grammar_of(style);
  int blocks = 0;
  for (size_t from = 0; grammar != nullptr;) {
    size_t at = text.size();
    for (const std::string& start : starts) at = std::min(at, text.find(start, from));
    if (at == text.size()) break;
    ++blocks;
    const std::string_view recipient_of_text = ">>>all";
    if (text.compare(at, recipient_of_text.size(), recipient_of_text) == 0) {
      from = at + 1;
      continue;
    }
    grammar::Matcher matcher(grammar);
    const size_t taken = matcher.push(std::string_view(text).substr(at));
    EXPECT_TRUE(matcher.may_end() || at + taken == text.size())
        << style.name << " stops before " << text.substr(at + taken);
    from = at + std::max<size_t>(taken, 1);
  }
  EXPECT_GT(blocks, 0) << style.name;
}

void check_turn(const std::string& name, const ChatTemplate& chat, const OutputFormat& format, const Turn& turn,
                int& checked) {
  const auto rendered = render_turn(chat, turn);
  if (!rendered || rendered->output.find("get_weather") == std::string::npos) return;
  SCOPED_TRACE(name + "\n  prompt: ..." +
               rendered->prompt.substr(rendered->prompt.size() - std::min<size_t>(60, rendered->prompt.size())) +
               "\n  output: " + rendered->output);
  const auto parts = parse_deltas({format, kFixtureTools, rendered->prompt}, {rendered->output});
  const Heard heard = hear(parts);
  // Some templates show the first call only.
  const bool two = turn.two && rendered->output.find("calc") != std::string::npos;
  ASSERT_EQ(heard.calls.size(), two ? 2u : 1u);
  EXPECT_TRUE(heard.whole);
  EXPECT_EQ(heard.calls[0].first, "get_weather");
  EXPECT_EQ(heard.calls[0].second, kWeather) << heard.calls[0].second.dump();
  if (two) {
    EXPECT_EQ(heard.calls[1].first, "calc");
    EXPECT_EQ(heard.calls[1].second, kCalc) << heard.calls[1].second.dump();
  }
  const bool shows_thought = rendered->output.find(kThought) != std::string::npos;
  if (format.tools == ToolFormat::kHarmony) {
    // gpt-oss's template renders content beside a call as thinking, and thinking only without content.
    EXPECT_EQ(heard.content, "");
    EXPECT_EQ(heard.reasoning, turn.content.empty() && shows_thought ? kThought : turn.content);
  } else {
    EXPECT_EQ(tool_call::trim(heard.content), rendered->output.find(kContent) == std::string::npos ? "" : turn.content);
    EXPECT_EQ(heard.reasoning, shows_thought ? kThought : "");
  }
  expect_held(*tool_call::find_style(format.tools), rendered->prompt, rendered->output);
  for (uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(parse_deltas({format, kFixtureTools, rendered->prompt}, cut_at_random(rendered->output, seed, 7)), parts)
        << "seed " << seed;
  ++checked;
}

TEST(OutputParserFixtures, TurnsRenderedByPublishedTemplatesParseBack) {
  int templates = 0;
  int turns = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data() + "/chat-templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem();
    const std::string source = jinja::read_file(entry.path());
    const auto chat = ChatTemplate::create(source, "<|bos|>", "<|eos|>");
    ASSERT_TRUE(chat.has_value()) << name;
    const OutputFormat format = detect_output_format(source);
    int checked = 0;
    for (const Turn& turn : {Turn{"", false, false}, Turn{kContent, false, false}, Turn{"", false, true},
                             Turn{kContent, false, true}, Turn{"", true, false}, Turn{kContent, true, true}})
      // Where a template shows no text beside calls, that is a message of its own, and not a turn that a model writes.
      // LFM's template does not escape quotes, so that its second call here is ambiguous. Calls that we render
      // ourselves for templates without calls are tested in generic_tools_test.
      if (!is_unknown_format(name) && chat->capabilities().calls &&
          (chat->capabilities().text_beside_calls || turn.content.empty()) &&
          !(turn.two && format.tools == ToolFormat::kLfm))
        check_turn(name, *chat, format, turn, checked);
    EXPECT_EQ(checked == 0, shows_no_calls(name) || is_unknown_format(name)) << name;
    std::printf("%-60s %-16s %d turns\n", name.c_str(), std::string(tool_call::find_style(format.tools)->name).c_str(),
                checked);
    templates += checked > 0;
    turns += checked;
  }
  std::printf("%d turns of %d templates\n", turns, templates);
  EXPECT_EQ(templates, 59);
  EXPECT_EQ(turns, 312);
}

}  // namespace
}  // namespace cairn::chat
