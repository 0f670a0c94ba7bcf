/// Conversations and tools in OpenAI's shape: checked, every error with its field's path, and brought into the one form
/// that templates know.
///
/// History is data: a call's arguments that are no valid JSON stay as they are, fields that templates do not know are
/// left alone, so that a session can always go on.
#pragma once

#include <nlohmann/json.hpp>

#include "api/chat/request.h"
#include "api/params/request_fields.h"

namespace cairn::api {

inline constexpr size_t kMessagesMax = 16'384;
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;
inline constexpr size_t kHistoryCallsMax = 1'024;  ///< tool calls of one message
inline constexpr size_t kTemplateVariablesMax = 256;

/// `messages`: roles system, developer (becomes system), user, assistant, tool; content a string or text parts. Every
/// tool message answers a call of the assistant's message before it, once.
nlohmann::ordered_json read_messages(RequestFields& fields);
/// `tools`: functions with unlike names, in any form of tool_forms.h. Null without any.
nlohmann::ordered_json read_tools(RequestFields& fields);
/// `chat_template_kwargs`, but for variables that the server sets.
void read_template_variables(RequestFields& fields, nlohmann::ordered_json& variables);
/// `messages`, `tools`, `chat_template_kwargs` and `add_generation_prompt`.
ChatInput read_chat_input(RequestFields& fields);
/// `tool_choice`, also in other forms (tool_forms.h), and `parallel_tool_calls`; "allowed_tools" leaves only those.
void read_tool_choice(RequestFields& fields, ChatRequest& request);
/// `reasoning_effort`, `thinking_budget` (and llama.cpp's names for it), `enable_thinking` and `reasoning_format`.
void read_reasoning(RequestFields& fields, ReasoningOptions& reasoning);
/// `reasoning` ({"effort", "enabled"}) and `thinking` ({"type", "budget_tokens"}), as other servers have them on chat.
void read_thinking_objects(RequestFields& fields, ReasoningOptions& reasoning);
/// "none" switches thinking off; false: no such effort.
bool set_effort(std::string_view effort, ReasoningOptions& reasoning);

/// The path of the first string, or key, within `value` that holds a NUL character; empty if none does.
std::string find_nul(const nlohmann::ordered_json& value, const std::string& path);

}  // namespace cairn::api
