// Llama 3.x: {"name": ..., "parameters": {...}} as the whole answer, after <|python_tag|> or not; built-in tools as
// <|python_tag|>name.call(key="value"). Other code after <|python_tag|> is text.
#include "chat/tool_calls/choice.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"
#include "chat/tool_calls/python_calls.h"

namespace cairn::chat::tool_call {
namespace llama {

std::unique_ptr<ToolCallParser> open_json() { return std::make_unique<JsonCalls>(JsonStyle{}); }

std::unique_ptr<ToolCallParser> choose(char first) {
  if (first == '{') return open_json();
  return std::make_unique<PythonCalls>("");
}

constexpr BlockStart kBlockStarts[] = {{"<|python_tag|>", open_choice<choose>}};
constexpr BlockStart kBare = {"{", open_json, true};

}  // namespace llama

const ToolStyle styles::kLlama = {
    .format = ToolFormat::kLlama,
    .name = "llama",
    .matches =
        [](std::string_view source) {
          return shows(source, "<|python_tag|>") ||
                 (shows(source, "<|start_header_id|>") && shows(source, "\"parameters\": "));
        },
    .block_starts = llama::kBlockStarts,
    .bare = &llama::kBare,
    .syntax =
        {.call_open = "{\"name\": \"", .name_close = "\", \"parameters\": ", .call_close = "}", .separator = "; "},
};

}  // namespace cairn::chat::tool_call
