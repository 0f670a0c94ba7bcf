/// Tools of the Responses API -> functions as templates know them.
///
/// A model calls functions only. A custom tool is offered to it as a function of one string, the functions of a
/// namespace under a name of both, and a tool search that the client runs as a function too; OfferedTools says what a
/// call of theirs is in the protocol. Functions that are loaded later are not offered until a search has found them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "api/chat/tool_forms.h"
#include "base/error.h"

namespace cairn::api::responses {

/// What the model calls to search for tools.
inline constexpr std::string_view kToolSearch = "tool_search";

enum class ToolKind { kFunction, kCustom, kSearch };

/// What a function that the model sees is in the protocol.
struct OfferedTool {
  ToolKind kind = ToolKind::kFunction;
  std::string name_space;  ///< empty: it is in none
  std::string name;        ///< within it
};
/// The tools by the names that the model sees.
using OfferedTools = std::map<std::string, OfferedTool, std::less<>>;

/// "mcp__note", "add" -> "mcp__note__add": what the model sees of a namespace's function.
std::string offered_name(std::string_view name_space, std::string_view name);

struct ToolList {
  nlohmann::ordered_json functions = nlohmann::ordered_json::array();
  OfferedTools offered;                ///< of `functions`
  chat::CustomInputs custom_inputs{};  ///< of custom tools among them
  std::set<std::string> left_out;      ///< types of tools that are not offered, and what of others is not kept
};

/// `tools` of a request at `path`. Functions that are to be loaded later are left for the search, if the client has
/// one. Errors (kInvalidArgument) name the field.
Result<ToolList> read_tool_list(const nlohmann::ordered_json& tools, const std::string& path);
/// The functions among tools that a search has found, whatever else stands there.
ToolList found_tools(const nlohmann::ordered_json& tools);

}  // namespace cairn::api::responses
