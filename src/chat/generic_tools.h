/// Tools for models whose chat template knows nothing of them: the tools are told in the system's message, and calls
/// and results in history become text, in the Hermes way that most models have seen.
#pragma once

#include "chat/chat_template.h"

namespace cairn {

/// Whether a conversation has anything of tools in it.
bool speaks_of_tools(const ChatInput& input);

/// The same conversation in messages of roles system, user and assistant alone. `input` as for ChatTemplate::render.
ChatInput with_generic_tools(const ChatInput& input);

}  // namespace cairn
