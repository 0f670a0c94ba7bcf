#include "chat/tool_calls/formats/formats.h"

namespace cairn::chat::tool_call {

// Its calls are messages, which output/harmony_parser.h reads.
const ToolStyle styles::kHarmony = {
    .format = ToolFormat::kHarmony,
    .name = "harmony",
    .matches = [](std::string_view source) { return shows(source, "<|channel|>") && shows(source, "<|message|>"); },
    .block_starts = {},
    .syntax = {.call_open = "<|channel|>commentary to=functions.",
               .name_close = " <|constrain|>json<|message|>",
               .call_close = "<|call|>",
               .separator = "<|start|>assistant"},
};

}  // namespace cairn::chat::tool_call
