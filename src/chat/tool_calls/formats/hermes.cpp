// Hermes, and the ChatML models that follow it: <tool_call>{"name": ..., "arguments": {...}}</tool_call>
#include "chat/tool_calls/choice.h"
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace hermes {

std::unique_ptr<ToolCallParser> choose(char first) {
  if (first == '{' || first == '[') return std::make_unique<JsonCalls>(JsonStyle{.closer = "</tool_call>"});
  return first == '<' ? open_qwen_block() : open_glm();
}

constexpr BlockStart kBlockStarts[] = {{"<tool_call>", open_tool_call}};

}  // namespace hermes

std::unique_ptr<ToolCallParser> open_tool_call() { return std::make_unique<ChoiceOfCalls>(hermes::choose); }

const ToolStyle styles::kHermes = {
    .format = ToolFormat::kHermes,
    .name = "hermes",
    .matches = [](std::string_view source) { return shows(source, "<tool_call>"); },
    .block_starts = hermes::kBlockStarts,
    .syntax = {.block_open = "<tool_call>\n",
               .call_open = "{\"name\": \"",
               .name_close = "\", \"arguments\": ",
               .call_close = "}",
               .separator = "\n</tool_call>\n<tool_call>\n",
               .block_close = "\n</tool_call>"},
};

}  // namespace cairn::chat::tool_call
