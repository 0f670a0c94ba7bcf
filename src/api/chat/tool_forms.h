/// The shapes in which clients write tools, calls and tool choices -> the one that Chat Completions documents.
///
/// Source: OpenAI API reference, "Chat Completions" (custom tools, allowed tools) and "Responses" (flat functions);
/// Anthropic API reference, "Tool use" ("any").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "base/error.h"
#include "chat/answer/request.h"

namespace cairn::api {

/// A custom tool's one argument.
inline constexpr std::string_view kCustomInput = "input";

/// {"type": "function", "function": {...}} of a function without its wrapper or its type, and of a custom tool, which
/// becomes a function of one string, kCustomInput. What is none of these comes back as it is.
nlohmann::ordered_json function_tool(const nlohmann::ordered_json& tool);
/// "none", "auto", "required" or {"type": "function", "function": {"name"}} of "any", of these words as an object's
/// type, and of a named tool in a flat or a custom form. What is none of these comes back as it is.
nlohmann::ordered_json plain_tool_choice(const nlohmann::ordered_json& choice);
/// The names that an entry of `tools` or of `allowed_tools` has: "" if none.
std::string tool_name_of(const nlohmann::ordered_json& tool);

/// What a custom tool's input is held to: its grammar, or any text. Errors: kInvalidArgument, for a format that is
/// none, at `path`.
Result<grammar::CallInput> custom_call_input(const nlohmann::ordered_json& tool, const std::string& path);
/// The inputs of all tools of type custom, by name.
Result<chat::CustomInputs> custom_call_inputs(const nlohmann::ordered_json& tools);
/// Names of the tools of type custom.
std::set<std::string, std::less<>> custom_tool_names(const nlohmann::ordered_json& tools);
/// Turns custom calls of a conversation into calls of the functions that `function_tool` makes.
void functions_for_custom_calls(nlohmann::ordered_json& messages);
/// A custom call's input out of the arguments of such a function; arguments that are cut or have another shape as they
/// are.
std::string custom_input(const std::string& arguments);

}  // namespace cairn::api
