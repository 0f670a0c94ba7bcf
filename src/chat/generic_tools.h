/// Tools for models whose chat template does not support them: the system message describes the tools, and calls and
/// results in the history become text, in the Hermes format that most models have seen.
#pragma once

#include "chat/chat_template.h"

namespace cairn {

/// Whether a conversation has tools, calls or results in it.
bool speaks_of_tools(const ChatInput& input);

/// The same conversation with messages of the roles system, user and assistant only. `input` as for
/// ChatTemplate::render.
ChatInput with_generic_tools(const ChatInput& input);

}  // namespace cairn
