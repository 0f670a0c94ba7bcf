/// Conversations in Ollama's shape -> OpenAI's, which api/chat/messages.h then checks.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cairn::api::ollama {

/// Content is text, thinking stands in `thinking`, calls have their arguments as objects and need no ids, and a tool's
/// message need not say which call it answers: then it is the first one without a result, of the tool's name if it has
/// `tool_name`; there may be none. Calls without an id get one that every template takes. Errors: `at` the field's
/// path.
Result<nlohmann::ordered_json> convert_messages(const nlohmann::ordered_json& messages);

}  // namespace cairn::api::ollama
