// Nemotron Nano 2: a list between tags.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace nemotron {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{.closer = "</TOOLCALL>"}); }
constexpr BlockStart kBlockStarts[] = {{"<TOOLCALL>", open}};

}  // namespace nemotron

const ToolStyle styles::kNemotron = {
    .format = ToolFormat::kNemotron,
    .name = "nemotron",
    .matches = [](std::string_view source) { return shows(source, "<TOOLCALL>"); },
    .block_starts = nemotron::kBlockStarts,
    .syntax = {.block_open = "<TOOLCALL>[",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]</TOOLCALL>"},
};

}  // namespace cairn::chat::tool_call
