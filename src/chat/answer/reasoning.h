/// What is asked of the model's thinking -> what its template is told.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "chat/answer/request.h"
#include "chat/chat_template.h"

namespace cairn::chat {

/// Adds to the template's `variables`, in the names that templates have for it; those that the client has set stay, but
/// for an effort that the context is too small for: ChatCapabilities::max_effort_tokens. What neither the client nor
/// the server's `defaults` say is on. Returns after how many tokens the thinking is closed, -1: never. An effort that
/// the template knows nothing of becomes such a budget.
int32_t resolve_reasoning(ReasoningOptions options, const ChatCapabilities& can, const TemplateDefaults& defaults,
                          int32_t context_tokens, nlohmann::ordered_json& variables);

}  // namespace cairn::chat
