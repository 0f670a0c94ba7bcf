/// Makes a conversation fit what its chat template can render, and loses nothing of it.
///
/// Agents send what models, other servers and their own bookkeeping left behind: system messages in the middle,
/// neighbours of one role, results without calls, arguments that are no JSON. Each template takes some of that, refuses
/// other things, and leaves out others in silence. What it can do was found out when it was loaded (template_probe.h);
/// what it cannot is brought into a form that it can:
///   - system messages are one, or stand in the first user's message; later ones become a user's;
///   - neighbours of one role are one message, and a user's text after a result follows it there;
///   - calls are split, one a message, each before its result; calls that nothing answers get an empty result;
///   - tools, calls and results become text (generic_tools.h);
///   - arguments become the object or the string that the template prints, or {"arguments": "the raw text"};
///   - ids become nine letters and digits; results get the names of their functions;
///   - what has an unknown role is a user's; answers that are empty are left out; a user's message is put in front of
///     what would otherwise begin with an answer.
/// Linear in the conversation.
#pragma once

#include <string>

#include "base/function_ref.h"
#include "chat/chat_input.h"
#include "chat/tool_calls/format.h"

namespace cairn::chat {

/// What fit_history goes by.
struct HistoryRules {
  const ChatCapabilities& can;
  const tool_call::ToolStyle* style = nullptr;  ///< of calls that become text; null: Hermes'
  /// Whether the template shows messages of a role other than system, user, assistant and tool.
  FunctionRef<bool(const std::string& role)> shows_role;
};

/// Changes `input`, whose messages are an array.
void fit_history(ChatInput& input, const HistoryRules& rules);

}  // namespace cairn::chat
