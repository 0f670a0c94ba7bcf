// FireFunction: the word functools and a list.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace fire_function {

std::unique_ptr<ToolCallParser> open() { return std::make_unique<JsonCalls>(JsonStyle{}); }
constexpr BlockStart kBlockStarts[] = {{"functools", open}};

}  // namespace fire_function

const ToolStyle styles::kFireFunction = {
    .format = ToolFormat::kFireFunction,
    .name = "fire_function",
    .matches = [](std::string_view source) { return shows(source, "functools["); },
    .block_starts = fire_function::kBlockStarts,
    .syntax = {.block_open = "functools[",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = ", ",
               .block_close = "]"},
};

}  // namespace cairn::chat::tool_call
