/// Conversations and tools in OpenAI's shape: checked, every error with its field's path, and brought into the one form
/// that templates know.
///
/// History is data: what stands in old messages does not end a session. Arguments that are no valid JSON stay as they
/// are, an assistant's `function_call` is a call and a message of a function's is a tool's, calls and results without
/// ids get them by their order, pictures and files in a tool's result become a text that
/// says so (unreadable.h), fields that templates do not know are left alone. What a template cannot show of it,
/// chat/history.h makes fit.
#pragma once

#include <nlohmann/json.hpp>

#include "api/chat/request.h"
#include "api/params/request_fields.h"

namespace cairn::api {

inline constexpr size_t kMessagesMax = 16'384;
inline constexpr size_t kRoleBytesMax = 64;
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;
/// What is wrong with a tool's name; empty: nothing. Quotes, backslashes, angle brackets and control characters end a
/// name, or what is around it, in some format of calls.
std::string tool_name_fault(const nlohmann::ordered_json& name);
inline constexpr size_t kHistoryCallsMax = 1'024;  ///< tool calls of one message
inline constexpr size_t kTemplateVariablesMax = 256;

/// The id of a call that came without one, by its number in the conversation: nine letters and digits, since Mistral's
/// templates refuse ids of any other length.
std::string history_call_id(int number);

/// `messages`: any roles, of which developer becomes system; content a string or text parts. Calls have ids and
/// arguments that are a string or an object, and every tool message has a call's id, which need not exist.
nlohmann::ordered_json read_messages(RequestFields& fields);
/// `tools`: functions with unlike names, in any form of tool_forms.h. Null without any.
nlohmann::ordered_json read_tools(RequestFields& fields);
/// `functions`: the form that tools had before, functions without a wrapper. Null without any.
nlohmann::ordered_json read_functions(RequestFields& fields);
/// `chat_template_kwargs`, but for variables that the server sets.
void read_template_variables(RequestFields& fields, nlohmann::ordered_json& variables);
/// `messages`, `tools`, `chat_template_kwargs`, `add_generation_prompt` and `continue_final_message`. A last message of
/// the assistant that is text, and answers somebody, is the answer's beginning: it goes into `prefill` instead of the
/// messages, unless `continue_final_message` is false, or, where it is not said, `add_generation_prompt` is false or
/// there are tools.
/// `functions`, if not null, are the tools.
chat::ChatInput read_chat_input(RequestFields& fields, std::string& prefill,
                                nlohmann::ordered_json functions = nullptr);
/// `tool_choice`, also in other forms (tool_forms.h), and `parallel_tool_calls`; "allowed_tools" leaves only those.
void read_tool_choice(RequestFields& fields, ChatRequest& request);
/// `function_call`, which is tool_choice for `functions`: "none", "auto" or {"name"}.
void read_function_call(RequestFields& fields, bool has_functions, ChatRequest& request);
/// `tool_call_parsing`: "strict" or "lenient". Done by read_tool_choice.
void read_tool_call_parsing(RequestFields& fields, ChatRequest& request);
/// `reasoning_effort`, `thinking_budget` (and llama.cpp's names for it), `enable_thinking` and `reasoning_format`.
void read_reasoning(RequestFields& fields, chat::ReasoningOptions& reasoning);
/// `reasoning` ({"effort", "enabled"}) and `thinking` ({"type", "budget_tokens"}), as other servers have them on chat;
/// each may be true, false or an effort as well.
void read_thinking_objects(RequestFields& fields, chat::ReasoningOptions& reasoning);
/// "none" switches thinking off; false: no such effort.
bool set_effort(std::string_view effort, chat::ReasoningOptions& reasoning);

}  // namespace cairn::api
