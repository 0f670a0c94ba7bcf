// Apertus: a list of {"name": {arguments}} between special tokens.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace apertus {

std::unique_ptr<ToolCallParser> open() {
  return std::make_unique<JsonCalls>(JsonStyle{.closer = "<|tools_suffix|>", .name_is_key = true});
}
constexpr BlockStart kBlockStarts[] = {{"<|tools_prefix|>", open}};

}  // namespace apertus

const ToolStyle styles::kApertus = {
    .format = ToolFormat::kApertus,
    .name = "apertus",
    .matches = [](std::string_view source) { return shows(source, "<|tools_prefix|>"); },
    .block_starts = apertus::kBlockStarts,
    .syntax = {.block_open = "<|tools_prefix|>[",
               .call_open = "{\"",
               .name_close = "\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]<|tools_suffix|>"},
};

}  // namespace cairn::chat::tool_call
