/// Tools, calls and results as text, for chat templates without a place for them. Calls are in the format that the
/// template shows elsewhere, if its arguments are JSON, or else as results in the Hermes format, which most models have
/// seen.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "chat/tool_calls/format.h"

namespace cairn::chat {

/// A description of the tools for the system message. `style`: of calls; null: Hermes.
std::string tools_as_text(const nlohmann::ordered_json& tools, const tool_call::ToolStyle* style);
/// A call of an assistant's message. Arguments that are not JSON stay as they were written.
std::string call_as_text(const nlohmann::ordered_json& call, const tool_call::ToolStyle* style);
/// A result's content, a string or a list of text parts, for a user's message.
nlohmann::ordered_json result_as_text(nlohmann::ordered_json content);

/// A value as JSON text on one line.
std::string written_json(const nlohmann::ordered_json& value);

}  // namespace cairn::chat
