// Apriel: a list between tags.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace apriel {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{.closer = "</tool_calls>"}); }
constexpr BlockStart kBlockStarts[] = {{"<tool_calls>", open}};

}  // namespace apriel

const ToolStyle styles::kApriel = {
    .format = ToolFormat::kApriel,
    .name = "apriel",
    .matches = [](std::string_view source) { return shows(source, "<tool_calls>["); },
    .block_starts = apriel::kBlockStarts,
    .syntax = {.block_open = "<tool_calls>[",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]</tool_calls>"},
};

}  // namespace cairn::chat::tool_call
