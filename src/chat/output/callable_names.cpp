#include "chat/output/callable_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/output/output_parser.h"
#include "chat/tool_calls/call_form.h"
#include "chat/tool_calls/characters.h"

namespace cairn::chat {
namespace {

using nlohmann::ordered_json;

/// What a call with this name may begin with, up to its arguments.
std::vector<std::string> openings(const tool_call::ToolStyle& style, std::string_view name) {
  std::vector<std::string> texts{tool_call::forced_opening(style, name, 0, "abcdefghi")};
  if (style.format != ToolFormat::kHarmony) return texts;
  const auto as_it_is = [](std::string_view text, bool) { return std::string(text); };
  for (const grammar::CallForm& form : tool_call::call_forms(style, as_it_is))
    for (const std::string& open : form.opens)
      for (const std::string& close : form.name_closes) texts.push_back(open + std::string(name) + close);
  return texts;
}

bool is_read(const tool_call::ToolStyle& style, std::string_view name) {
  const bool harmony = style.format == ToolFormat::kHarmony;
  const OutputFormat format{style.format, harmony ? ReasoningFormat::kHarmony : ReasoningFormat::kNone};
  ordered_json tools = ordered_json::array();
  tools.push_back(ordered_json::object({{"name", name}}));
  return std::ranges::all_of(openings(style, name), [&](const std::string& opening) {
    OutputParser parser(format, tools, harmony ? "<|start|>assistant" : "");
    std::vector<Part> parts;
    parser.feed(opening, parts);
    return std::ranges::any_of(
        parts, [&](const Part& part) { return part.kind == PartKind::kCallBegin && part.text == name; });
  });
}

bool is_plain(std::string_view name) {
  return std::ranges::all_of(name, [](char byte) {
    return tool_call::is_letter(byte) || tool_call::is_digit(byte) || byte == '_' || byte == '-';
  });
}

/// The text without its last character.
std::string_view shortened(std::string_view text) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; };
  while (text.size() > 1 && continues(text.back())) text.remove_suffix(1);
  text.remove_suffix(1);
  return text;
}

}  // namespace

std::string_view uncallable_beginning(const tool_call::ToolStyle& style, std::string_view name) {
  if (name.empty() || is_plain(name) || is_read(style, name)) return {};
  std::string_view beginning = name;
  while (true) {
    const std::string_view before = shortened(beginning);
    if (before.empty() || is_read(style, before)) return beginning;
    beginning = before;
  }
}

}  // namespace cairn::chat
