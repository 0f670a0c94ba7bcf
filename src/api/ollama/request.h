/// Ollama's POST /api/chat and /api/generate -> the neutral request.
///
/// Source: Ollama, docs/api.md and api/types.go. Our docs/api/ollama.md lists every field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "api/chat/request.h"
#include "base/error.h"

namespace cairn::api::ollama {

struct OllamaRequest {
  ChatRequest chat;
  bool only_load = false;          ///< there is nothing to answer: the client wants the model loaded, which it is
  std::optional<std::string> raw;  ///< a prompt without a template, in place of the conversation
};

Result<OllamaRequest> parse_chat(const nlohmann::ordered_json& body);
Result<OllamaRequest> parse_generate(const nlohmann::ordered_json& body);

}  // namespace cairn::api::ollama
