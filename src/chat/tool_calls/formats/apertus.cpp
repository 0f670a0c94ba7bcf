// Apertus: a list of {"name": {arguments}} between special tokens.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::tool_call {
namespace {

std::unique_ptr<CallReader> open() {
  return std::make_unique<JsonCalls>(JsonStyle{.closer = "<|tools_suffix|>", .name_is_key = true});
}
constexpr Opener kOpeners[] = {{"<|tools_prefix|>", open}};

}  // namespace

const ToolStyle styles::kApertus = {
    .format = ToolFormat::kApertus,
    .name = "apertus",
    .recognise = [](std::string_view source) { return shows(source, "<|tools_prefix|>"); },
    .openers = kOpeners,
    .syntax = {.block_open = "<|tools_prefix|>[",
               .call_open = "{\"",
               .name_close = "\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]<|tools_suffix|>"},
};

}  // namespace cairn::tool_call
