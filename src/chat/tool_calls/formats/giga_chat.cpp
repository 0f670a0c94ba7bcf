// GigaChat 3.1: an object after a special token; 3.0: a message of its own, from the role "function call".
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace giga_chat {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{}); }
constexpr std::string_view kToken = "<|function_call|>";
constexpr std::string_view kRole = "<|message_sep|>\n\nfunction call<|role_sep|>\n";
constexpr BlockStart kBlockStarts[] = {{kToken, open}};
constexpr BlockStart kRoleBlockStarts[] = {{kRole, open}};

constexpr CallSyntax syntax_after(std::string_view block_start) {
  return {
      .block_open = block_start, .call_open = "{\"name\": \"", .name_close = "\", \"arguments\": ", .call_close = "}"};
}

}  // namespace giga_chat

const ToolStyle styles::kGigaChat = {
    .format = ToolFormat::kGigaChat,
    .name = "giga_chat",
    .matches = [](std::string_view source) { return shows(source, giga_chat::kToken); },
    .block_starts = giga_chat::kBlockStarts,
    .syntax = giga_chat::syntax_after(giga_chat::kToken),
};

const ToolStyle styles::kGigaChatRole = {
    .format = ToolFormat::kGigaChatRole,
    .name = "giga_chat_role",
    .matches =
        [](std::string_view source) { return shows(source, "'function call'") && shows(source, "<|role_sep|>"); },
    .block_starts = giga_chat::kRoleBlockStarts,
    .syntax = giga_chat::syntax_after(giga_chat::kRole),
};

}  // namespace cairn::chat::tool_call
