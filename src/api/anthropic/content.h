/// Anthropic's conversations -> the form of api/chat/messages.h.
///
/// Content blocks that are text become one string, a line end between them; tool_use becomes tool_calls, tool_result a
/// tool message in front of the user's text, thinking reasoning_content. Neighbours of one role are one message.
/// History is data, as there: a tool_use whose input is no object stays as it is, pictures and documents in a tool's
/// result become a text that says so, results without a call are kept, blocks that only other servers can read
/// (server_tool_use, redacted_thinking) are left out, and what a block has beside the documented fields is left alone.
///
/// Source: Anthropic API reference, "Create a Message".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace cairn::api::anthropic {

/// Claude Code begins its system prompt with a block that differs in every request and means nothing to a model.
inline constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

struct Conversation {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  std::string prefill;  ///< text of a last message of the assistant, which is not among the messages
};

/// The id of a call as Anthropic's clients expect it: toolu_ and what makes it one of its own, with which every id that
/// a model or this server gives is sent.
std::string sent_call_id(std::string_view id);
/// The id that was sent so; another one as it is.
std::string received_call_id(std::string_view id);

/// `system` may be null. Errors have the path of what is wrong: "messages[2].content[0].tool_use_id".
Result<Conversation> read_conversation(const nlohmann::ordered_json* system, const nlohmann::ordered_json& messages);

}  // namespace cairn::api::anthropic
