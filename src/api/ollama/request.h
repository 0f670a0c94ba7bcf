/// Ollama's POST /api/chat and /api/generate -> the neutral request.
///
/// Source: Ollama, docs/api.md and api/types.go. Our docs/api/ollama.md lists every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "api/chat/request.h"
#include "api/params/request_fields.h"
#include "base/error.h"

namespace cairn::api::ollama {

struct OllamaRequest {
  ChatRequest chat;
  bool only_load = false;          ///< there is nothing to answer: the client wants the model loaded, which it is
  std::optional<std::string> raw;  ///< a prompt without a template, in place of the conversation
  std::string suffix;              ///< what comes after the answer, which fills in between it and `raw`; empty: nothing
};

Result<OllamaRequest> parse_chat(RequestContext& context, const nlohmann::ordered_json& body);
Result<OllamaRequest> parse_generate(RequestContext& context, const nlohmann::ordered_json& body);
/// Rejects a keep_alive that is no time; what it says is honoured before (ModelRequest).
void check_keep_alive(RequestFields& fields);

/// A conversation in Ollama's shape -> OpenAI's, which api/chat/messages.h then checks.
///
/// Content is text, thinking stands in `thinking`, calls have their arguments as objects and need no ids, and a tool's
/// message need not say which call it answers: then it is the first one without a result, of the tool's name if it has
/// `tool_name`; there may be none. Calls without an id get one that every template takes. Errors: `at` the field's
/// path.
Result<nlohmann::ordered_json> convert_messages(RequestContext& context, const nlohmann::ordered_json& messages);

}  // namespace cairn::api::ollama
