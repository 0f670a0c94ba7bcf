/// For tests: cuts outputs into deltas, and prints parts as short lines.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output/output_parser.h"

namespace cairn::chat {

/// The parts of an output that comes in these deltas, with adjacent ones merged.
inline std::vector<Part> parse_deltas(OutputParser parser, const std::vector<std::string_view>& deltas) {
  std::vector<Part> parts;
  for (const std::string_view delta : deltas) parser.feed(delta, parts);
  parser.finish(parts);
  std::vector<Part> merged;
  for (Part& part : parts) {
    const bool is_text = part.kind != PartKind::kCallBegin && part.kind != PartKind::kCallEnd;
    if (is_text && !merged.empty() && merged.back().kind == part.kind && merged.back().call == part.call)
      merged.back().text += part.text;
    else
      merged.push_back(std::move(part));
  }
  return merged;
}

/// Cuts a text into random pieces of 0 to `piece_max` bytes.
inline std::vector<std::string_view> cut_at_random(std::string_view text, uint64_t seed, size_t piece_max) {
  std::mt19937_64 random(seed);
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    pieces.push_back(text.substr(0, random() % (piece_max + 1)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

using Lines = std::vector<std::string>;

/// A line for each part: "C text", "R text", "name#id{arguments}" with "~" after a cut and "!" after a broken call.
inline Lines lines_of(const std::vector<Part>& parts) {
  Lines lines;
  for (const Part& part : parts) {
    switch (part.kind) {
      case PartKind::kContent:
        lines.push_back("C " + part.text);
        break;
      case PartKind::kReasoning:
        lines.push_back("R " + part.text);
        break;
      case PartKind::kCallBegin:
        lines.push_back(part.id.empty() ? part.text : part.text + "#" + part.id);
        break;
      case PartKind::kArguments:
        lines.back() += part.text;
        break;
      case PartKind::kCallEnd:
        if (part.state != CallState::kWhole) lines.back() += part.state == CallState::kCut ? "~" : "!";
        break;
    }
  }
  return lines;
}

}  // namespace cairn::chat
