// Cohere: Command R7B and A write a list between special tokens, Command R+ after the word Action.
#include "chat/tool_calls/formats/formats.h"
#include "chat/tool_calls/json_calls.h"

namespace cairn::chat::tool_call {
namespace command_r {

std::unique_ptr<ToolCallParser> open_actions() {
  return std::make_unique<JsonCalls>(JsonStyle{.closer = "<|END_ACTION|>"});
}
std::unique_ptr<ToolCallParser> open_fence() { return std::make_unique<JsonCalls>(JsonStyle{.closer = "```"}); }

constexpr BlockStart kBlockStarts[] = {{"<|START_ACTION|>", open_actions}};
constexpr BlockStart kPlusBlockStarts[] = {{"Action:\n```json", open_fence}, {"Action: ```json", open_fence}};

}  // namespace command_r

const ToolStyle styles::kCommandR = {
    .format = ToolFormat::kCommandR,
    .name = "command_r",
    .matches = [](std::string_view source) { return shows(source, "<|START_ACTION|>"); },
    .block_starts = command_r::kBlockStarts,
    .syntax = {.block_open = "<|START_ACTION|>[\n    ",
               .call_open = "{\"tool_call_id\": \"{index}\", \"tool_name\": \"",
               .name_close = "\", \"parameters\": ",
               .call_close = "}",
               .separator = ",\n    ",
               .block_close = "\n]<|END_ACTION|>"},
};

const ToolStyle styles::kCommandRPlus = {
    .format = ToolFormat::kCommandRPlus,
    .name = "command_r_plus",
    .matches = [](std::string_view source) { return shows(source, "Action:\\n```json"); },
    .block_starts = command_r::kPlusBlockStarts,
    .syntax = {.block_open = "Action:\n```json\n[\n    ",
               .call_open = "{\n        \"tool_name\": \"",
               .name_close = "\",\n        \"parameters\": ",
               .call_close = "\n    }",
               .separator = ",\n    ",
               .block_close = "\n]```"},
};

}  // namespace cairn::chat::tool_call
