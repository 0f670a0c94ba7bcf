// Fuzzes the parser of model outputs: the parts do not depend on the cuts, nothing but markup is lost, and arguments
// are JSON if the call is whole, and none if it is cut. The input's first line names the formats of calls and of
// thinking, says with + that calls in another dress are read, and ends the prompt; control bytes after it stand for the
// formats' own markers.
#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text/utf8.h"
#include "chat/testing/output_parser_fixture.h"
#include "chat/tool_calls/characters.h"

namespace cairn {
namespace {

using chat::tool_call::ToolStyle;

constexpr size_t kCheckedForLossMax = 400;  // bytes; the check is quadratic

const nlohmann::ordered_json& tools() {
  static const auto made = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "i": {"type": "integer"},
      "n": {"type": ["string", "null"]}, "o": {"type": "object"}}}}}])");
  return made;
}

struct Input {
  chat::OutputFormat format;
  std::string_view prompt;
  std::string output;
  std::vector<std::string_view> markup;  // texts that may be missing from the parts
  bool dressed = false;                  // whether calls in another dress are read
};

template <class Styles>
auto pick(const Styles& styles, std::string_view name, auto name_of) {
  size_t sum = 0;
  for (const char byte : name) sum += static_cast<unsigned char>(byte);
  const auto named = std::ranges::find(styles, name, name_of);
  return named == styles.end() ? styles[sum % styles.size()] : *named;
}

Input read(std::string_view data) {
  const std::string_view header = data.substr(0, data.find('\n'));
  std::string_view rest = data.substr(std::min(data.size(), header.size() + 1));
  const size_t space = std::min(header.find(' '), header.size());
  const ToolStyle& tools = *pick(chat::tool_call::tool_styles(), header.substr(0, space),
                                 [](const ToolStyle* style) { return style->name; });
  const std::string_view second = header.substr(std::min(space + 1, header.size()));
  const chat::ReasoningStyle& thinking =
      pick(chat::reasoning_styles(), second.substr(0, second.find(' ')), [](const auto& style) { return style.name; });
  Input input{{tools.format, thinking.format},
              {},
              {},
              {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "all"},
              header.find('+') != std::string_view::npos};
  if (header.ends_with('!')) input.prompt = thinking.open;
  if (header.ends_with('-')) input.format.tools = chat::ToolFormat::kNone;
  if (tools.format == chat::ToolFormat::kHarmony) input.format.reasoning = chat::ReasoningFormat::kHarmony;

  for (const auto& block_start : tools.block_starts) input.markup.push_back(block_start.text);
  const auto& syntax = tools.syntax;
  for (const auto text : {syntax.block_open, syntax.call_open, syntax.name_close, syntax.call_close, syntax.separator,
                          syntax.block_close, chat::tool_call::trim(syntax.block_close), thinking.open, thinking.close})
    input.markup.push_back(text);
  input.markup.insert(input.markup.end(), thinking.answer_open.begin(), thinking.answer_open.end());
  input.markup.insert(input.markup.end(), thinking.answer_close.begin(), thinking.answer_close.end());
  for (const char byte : rest) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x20 || byte == '\n' || byte == '\t')
      input.output += byte;
    else
      input.output += input.markup[value % input.markup.size()];
  }
  input.output = utf8_replace_invalid(input.output);
  return input;
}

std::vector<chat::Part> parse(const Input& input, const std::vector<std::string_view>& deltas) {
  static const auto offered = std::make_shared<const nlohmann::ordered_json>(tools());
  return chat::parse_deltas({input.format, tools(), input.prompt, {input.dressed ? offered : nullptr}}, deltas);
}

// Checks that calls are complete sequences of begin, arguments, end, numbered from 0, with JSON as arguments of
// those that are whole alone.
void check_calls(const std::vector<chat::Part>& parts) {
  int32_t calls = 0;
  bool open = false;
  std::string arguments;
  for (const chat::Part& part : parts) {
    switch (part.kind) {
      case chat::PartKind::kCallBegin:
        CAIRN_CHECK(!open && part.call == calls++ && !part.text.empty() && part.text.size() <= chat::kCallNameBytesMax);
        open = true;
        arguments.clear();
        break;
      case chat::PartKind::kArguments:
        CAIRN_CHECK(open && part.call == calls - 1);
        arguments += part.text;
        break;
      case chat::PartKind::kCallEnd:
        CAIRN_CHECK(open && part.call == calls - 1 && !arguments.empty());
        if (part.state != chat::CallState::kBroken)
          CAIRN_CHECK(nlohmann::json::accept(arguments) == (part.state == chat::CallState::kWhole));
        open = false;
        break;
      default:
        CAIRN_CHECK(!open && part.call == -1);
    }
  }
  CAIRN_CHECK(!open && calls <= chat::kCallsMax);
}

// Whether `kept` is `whole` without some markup and whitespace.
bool only_markup_is_missing(const Input& input, std::string_view kept) {
  const std::string_view whole = input.output;
  std::vector<std::bitset<kCheckedForLossMax + 1>> reached(whole.size() + 1);
  reached[0].set(0);
  for (size_t at = 0; at < whole.size(); ++at) {
    const bool is_space = std::string_view(" \n\t\r").find(whole[at]) != std::string_view::npos;
    for (size_t had = 0; had <= kept.size(); ++had) {
      if (!reached[at].test(had)) continue;
      if (is_space) reached[at + 1].set(had);
      if (had < kept.size() && kept[had] == whole[at]) reached[at + 1].set(had + 1);
      for (const auto text : input.markup)
        if (whole.substr(at).starts_with(text)) reached[at + text.size()].set(had);
    }
  }
  return reached[whole.size()].test(kept.size());
}

void check(std::string_view data) {
  const Input input = read(data);
  const std::vector<chat::Part> parts = parse(input, {input.output});
  check_calls(parts);
  uint64_t seed = input.output.size();
  for (const char byte : input.output) seed = seed * 31 + static_cast<unsigned char>(byte);
  CAIRN_CHECK(parse(input, chat::cut_at_random(input.output, seed, 1 + seed % 9)) == parts);
  CAIRN_CHECK(parse(input, chat::cut_at_random(input.output, seed + 1, 1)) == parts);

  std::string kept;
  for (const chat::Part& part : parts) {
    CAIRN_CHECK(utf8_valid(part.text));
    if (part.kind == chat::PartKind::kCallBegin) return;  // the text of calls is not preserved literally
    kept += part.text;
  }
  // Harmony drops whole headers.
  if (input.format.reasoning == chat::ReasoningFormat::kHarmony || input.output.size() > kCheckedForLossMax) return;
  CAIRN_CHECK(only_markup_is_missing(input, kept));
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cairn::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
