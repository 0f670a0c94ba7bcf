// MiniMax M1: an object on each line, between tags.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace minimax_m1 {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{.closer = "</tool_calls>"}); }
constexpr BlockStart kBlockStarts[] = {{"<tool_calls>", open}};

}  // namespace minimax_m1

const ToolStyle styles::kMiniMaxM1 = {
    .format = ToolFormat::kMiniMaxM1,
    .name = "minimax_m1",
    .matches = [](std::string_view source) { return shows(source, "<tool_calls>"); },
    .block_starts = minimax_m1::kBlockStarts,
    .syntax = {.block_open = "<tool_calls>\n",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = "\n",
               .block_close = "\n</tool_calls>"},
};

}  // namespace cairn::chat::tool_call
