// Granite 3: <|tool_call|> and a list, with nothing after it. Granite 4 writes as Hermes does.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace granite {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{}); }
constexpr BlockStart kBlockStarts[] = {{"<|tool_call|>", open}};

}  // namespace granite

const ToolStyle styles::kGranite = {
    .format = ToolFormat::kGranite,
    .name = "granite",
    .matches = [](std::string_view source) { return shows(source, "<|tool_call|>"); },
    .block_starts = granite::kBlockStarts,
    .syntax = {.block_open = "<|tool_call|>[",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]"},
};

}  // namespace cairn::chat::tool_call
