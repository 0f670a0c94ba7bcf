/// For tests: outputs of every format, with the expected parts, including malformed outputs and outputs that are cut
/// off.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/output/output_parser.h"

namespace cairn::chat {

struct OutputCase {
  ToolFormat tools = ToolFormat::kHermes;
  ReasoningFormat reasoning = ReasoningFormat::kThink;
  std::string_view prompt;
  std::string output;
  std::vector<std::string> lines;  ///< expected, as from lines_of
};

/// The tools with which every case is parsed.
inline constexpr std::string_view kCaseTools = R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "opts": {"type": "object"},
    "note": {"type": ["string", "null"]}, "any": {}}}}},
  {"type": "function", "function": {"name": "now"}}])";

/// An output of a format whose model thinks between tags.
inline OutputCase as(ToolFormat format, std::string output, std::vector<std::string> lines) {
  return {format, ReasoningFormat::kThink, "", std::move(output), std::move(lines)};
}

/// The cases, by families of formats.
std::vector<OutputCase> text_cases();
std::vector<OutputCase> json_cases();
std::vector<OutputCase> marked_cases();
std::vector<OutputCase> tagged_cases();
std::vector<OutputCase> harmony_cases();

}  // namespace cairn::chat
